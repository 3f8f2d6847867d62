// Package money holds amounts and prices as exact decimals. What a batch costs
// is a sum of millions of small products: floating point would drift.
package money

import (
	"fmt"
	"math/big"
	"strings"
)

// Amount is money in millionths of a millionth of the currency unit (1e-12), so
// that a price per million tokens with six decimals times a token is a whole
// number. int64 holds up to 9.2 million units.
type Amount int64

// Price is what tokens cost. The zero value means unknown, unless Known is set.
type Price struct {
	Input, Output Amount // for one token
	Known         bool

	Cached      Amount // for one input token that the provider had in its cache
	CachedKnown bool   // false: cached tokens cost as much as others
}

// Cost returns the price of that many tokens, none of them cached.
func (p Price) Cost(input, output int64) Amount {
	return p.Input*Amount(input) + p.Output*Amount(output)
}

// Bill returns the price of what a call used; cached is a part of input.
func (p Price) Bill(input, cached, output int64) Amount {
	if !p.CachedKnown {
		return p.Cost(input, output)
	}
	cached = min(max(cached, 0), input)
	return p.Cost(input-cached, output) + p.Cached*Amount(cached)
}

// Units is the amount in the currency's unit, for charts and metrics, which
// count in floating point.
func (a Amount) Units() float64 { return float64(a) / 1e12 }

// Parse reads a decimal amount such as "12.50" exactly. It refuses negative
// amounts and more than twelve decimals.
func Parse(s string) (Amount, error) {
	// The letters first: an exponent such as 1e999999999 would be written out.
	if len(s) > 40 || strings.Trim(s, "+-.0123456789") != "" {
		return 0, fmt.Errorf("%.40q is not a decimal amount", s)
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return 0, fmt.Errorf("%q is not a decimal amount", s)
	}
	r.Mul(r, new(big.Rat).SetInt64(1e12))
	if r.Sign() < 0 || !r.IsInt() || !r.Num().IsInt64() {
		return 0, fmt.Errorf("%q is out of range: want 0 to 9000000 with at most twelve decimals", s)
	}
	return Amount(r.Num().Int64()), nil
}

// ParsePrice reads the price of a million tokens and returns that of one.
func ParsePrice(s string) (Amount, error) {
	m, err := Parse(s)
	if err != nil {
		return 0, err
	}
	if m%1e6 != 0 {
		return 0, fmt.Errorf("%q has more than six decimals", s)
	}
	return m / 1e6, nil
}

// PerMillion prints the price of a million tokens as [ParsePrice] reads it.
func (m Amount) PerMillion() string {
	s := new(big.Rat).SetFrac64(int64(m), 1e6).FloatString(6)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// Decimal prints the amount exactly, with as many decimals as it needs.
func (m Amount) Decimal() string {
	s := new(big.Rat).SetFrac64(int64(m), 1e12).FloatString(12)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// String prints the amount with four decimals, and with more where it would else
// be nothing.
func (m Amount) String() string {
	r, decimals := new(big.Rat).SetFrac64(int64(m), 1e12), 4
	for half := Amount(5e7); m != 0 && m < half && m > -half; half /= 10 {
		decimals++
	}
	return r.FloatString(decimals)
}
