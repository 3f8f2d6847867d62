package money

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]Amount{"0": 0, "12.50": 12.5e12, "0.000000000001": 1, "9000000": 9e18} {
		if got, err := Parse(in); err != nil || got != want {
			t.Errorf("Parse(%q): got %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "x", "-1", "1/3", "1e3", "1e999999999", "0x1p-2", "1_000", "NaN", "Inf", "0.0000000000001", "10000000", strings.Repeat("9", 41)} {
		if got, err := Parse(in); err == nil {
			t.Errorf("Parse(%q): got %d, want an error", in, got)
		}
	}
}

func TestParsePrice(t *testing.T) {
	for _, in := range []string{"0", "3", "0.075", "15.000001"} {
		got, err := ParsePrice(in)
		if err != nil || got.PerMillion() != in {
			t.Errorf("ParsePrice(%q): got %s, %v", in, got.PerMillion(), err)
		}
	}
	if got, err := ParsePrice("0.0000001"); err == nil {
		t.Errorf("a seventh decimal: got %d, want an error", got)
	}
}

func TestBill(t *testing.T) {
	p := Price{Input: 3, Output: 15, Known: true}
	if got := p.Bill(100, 80, 10); got != 450 {
		t.Errorf("cached tokens without a price of their own: got %d, want 450", got)
	}
	p.Cached, p.CachedKnown = 1, true
	if got := p.Bill(100, 80, 10); got != 20*3+80+150 {
		t.Errorf("cached tokens: got %d, want 290", got)
	}
	if got := p.Bill(100, 800, 10); got != 100+150 {
		t.Errorf("more cached than input: got %d, want 250", got)
	}
}

func TestString(t *testing.T) {
	for in, want := range map[Amount]string{
		0: "0.0000", 12.5e12: "12.5000", 0.0123456e12: "0.0123", 6e7: "0.0001", 4e7: "0.00004", 1e6: "0.000001", 1234567: "0.000001", 1: "0.000000000001", -4e7: "-0.00004",
	} {
		if got := in.String(); got != want {
			t.Errorf("%d: got %s, want %s", int64(in), got, want)
		}
	}
}

func TestDecimal(t *testing.T) {
	for want, m := range map[string]Amount{"0": 0, "12.5": 12.5e12, "0.000000000001": 1, "100": 1e14, "-0.25": -0.25e12} {
		if got := m.Decimal(); got != want {
			t.Errorf("%d: got %s, want %s", m, got, want)
		}
	}
}
