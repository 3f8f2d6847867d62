package runner

import (
	"testing"

	"github.com/llmbatch/llmbatch/runner/money"
	"github.com/llmbatch/llmbatch/runner/provider"
)

func TestOutputStats(t *testing.T) {
	var o outputStats
	step := func(n int, tokens, want int64) {
		t.Helper()
		for range n {
			o.add(tokens)
		}
		if got := o.p99(); got != want {
			t.Errorf("after %d outputs: got %d, want %d", o.n, got, want)
		}
	}
	step(0, 0, firstOutput)
	step(19, 10, firstOutput)
	step(1, 10, 10)
	step(1, 900, 10) // worked out anew every 20
	step(19, 10, 900)
	step(160, 10, 10) // 1 of 200 is beyond the p99
	step(2, 500, 10)
	step(18, 10, 500) // 2 of 200 are not
	step(200, 0, 1)   // never nought
}

func TestPurse(t *testing.T) {
	of := func(prompt int, reserved int64, capped int) *job {
		j := &job{reserved: reserved, cap: int64(capped)}
		j.tokens.Prompt = prompt
		return j
	}
	price := money.Price{Input: 1, Output: 10, Known: true}
	p := purse{limit: 1000}
	a, b := of(100, 40, 40), of(100, 40, 40)
	if most(price, a) != 500 || most(price, of(100, 8, 40)) != 500 || most(price, of(100, 50, 0)) != 600 {
		t.Errorf("got most %d, %d, %d; want 500, 500, 600", most(price, a), most(price, of(100, 8, 40)), most(price, of(100, 50, 0)))
	}
	step := func(what string, open, spent money.Amount, affords bool) {
		t.Helper()
		if p.open != open || p.spent != spent || p.affords(price, of(100, 40, 40)) != affords {
			t.Errorf("%s: got open %d, spent %d, affords another %t; want %d, %d, %t", what, p.open, p.spent, p.affords(price, of(100, 40, 40)), open, spent, affords)
		}
	}
	step("at first", 0, 0, true)
	p.reserve(price, a)
	step("one on the wire", 500, 0, true)
	p.reserve(price, b)
	step("two on the wire", 1000, 0, false)
	p.settle(price, a, provider.Usage{Input: 90, Output: 1, Known: true})
	step("one answered", 500, 100, false)
	p.fail(b, false)
	step("one refused", 0, 100, true)
	p.reserve(price, b)
	p.fail(b, true)
	step("one lost: it may have been billed", 0, 600, false)
	p.reserve(price, a)
	p.settle(price, a, provider.Usage{})
	step("one answered without usage", 0, 1100, false)
	if free := (&purse{}); !free.affords(price, of(1<<40, 1<<40, 0)) {
		t.Error("a purse without a bound affords not everything")
	}
}
