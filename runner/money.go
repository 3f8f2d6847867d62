package runner

import (
	"fmt"
	"math/big"
	"strings"
)

// Money is an amount in millionths of a millionth of the currency unit
// (1e-12), so that a price per million tokens with six decimals times a token
// is a whole number. int64 holds up to 9.2 million units.
type Money int64

// Price is what a million tokens cost. The zero value means unknown, unless
// Known is set.
type Price struct {
	Input, Output Money // for one token
	Known         bool
}

// Cost returns the price of that many tokens.
func (p Price) Cost(input, output int64) Money {
	return p.Input*Money(input) + p.Output*Money(output)
}

// ParseMoney reads a decimal amount such as "12.50" exactly. It refuses
// negative amounts and more than twelve decimals.
func ParseMoney(s string) (Money, error) {
	r, ok := new(big.Rat).SetString(s)
	if !ok || strings.ContainsAny(s, "/eExX") {
		return 0, fmt.Errorf("%q is not a decimal amount", s)
	}
	r.Mul(r, new(big.Rat).SetInt64(1e12))
	if r.Sign() < 0 || !r.IsInt() || !r.Num().IsInt64() {
		return 0, fmt.Errorf("%q is out of range: want 0 to 9000000 with at most twelve decimals", s)
	}
	return Money(r.Num().Int64()), nil
}

// ParsePrice reads the price of a million tokens and returns that of one.
func ParsePrice(s string) (Money, error) {
	m, err := ParseMoney(s)
	if err != nil {
		return 0, err
	}
	if m%1e6 != 0 {
		return 0, fmt.Errorf("%q has more than six decimals", s)
	}
	return m / 1e6, nil
}

// String prints the amount with four decimals, more where it is smaller.
func (m Money) String() string {
	r := new(big.Rat).SetFrac64(int64(m), 1e12)
	if m != 0 && m < 1e8 && m > -1e8 {
		return r.FloatString(8)
	}
	return r.FloatString(4)
}
