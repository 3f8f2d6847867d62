package runner

import (
	"github.com/llmbatch/llmbatch/runner/money"
	"github.com/llmbatch/llmbatch/runner/provider"
)

// purse keeps the cost within its bound: what is spent, and what the calls in
// flight could still cost. The zero value has no bound.
type purse struct {
	limit       money.Amount // 0 = none
	spent, open money.Amount
}

// most is what a job can cost: its prompt and the whole output that its cap
// allows, however little of it is reserved; without a cap, what is reserved.
func most(p money.Price, j *job) money.Amount {
	return p.Cost(int64(j.tokens.Prompt), max(j.reserved, j.cap))
}

// affords says that a call can be made without passing the bound, whatever
// the calls in flight turn out to cost.
func (p *purse) affords(price money.Price, j *job) bool {
	return p.limit == 0 || p.spent+p.open+most(price, j) <= p.limit
}

func (p *purse) reserve(price money.Price, j *job) {
	j.dear = most(price, j)
	p.open += j.dear
}

// settle replaces the reservation by what was billed; without usage the
// reservation counts.
func (p *purse) settle(price money.Price, j *job, u provider.Usage) {
	p.open -= j.dear
	if u.Known {
		p.spent += price.Bill(u.Input, u.Cached, u.Output)
	} else {
		p.spent += j.dear
	}
}

// fail gives the reservation back, unless the call may have been billed.
func (p *purse) fail(j *job, unknown bool) {
	p.open -= j.dear
	if unknown {
		p.spent += j.dear
	}
}

// stop says why nothing more is sent.
func (p *purse) stop() *Stop {
	return &Stop{
		Kind:   StopBound,
		Reason: "the next call could pass the cost bound of " + p.limit.String() + "; spent so far: " + p.spent.String(),
		Hint:   "raise --max-cost, then run the same command again",
	}
}
