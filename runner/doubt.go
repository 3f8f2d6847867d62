package runner

import (
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/input"
)

// doubt gives an entry of unknown outcome its stand. One whose answer has an id
// is to be looked up, also where it would be held.
func (p *plan) doubt(c *Config, ix *input.Index, i int, op *checkpoint.Operation) {
	n := len(op.Attempts)
	switch {
	case c.Policy.HoldUnknown && (n == 0 || op.Attempts[n-1].AnswerID == "" || p.stand[i] == standSkip):
		p.set(i, standHeld, &p.held, &p.skipped)
	case p.stand[i] == standTodo && !ix.Entry(i).Invalid():
		p.unsettled++
	}
}

func (p *plan) noteUnknown(op *checkpoint.Operation) {
	p.unknowns++
	p.sentAgain = p.sentAgain || SentAgain(op)
	if len(p.unknown) < maxListed {
		p.unknown = append(p.unknown, op.ID)
	}
}

// noteBefore counts the calls of unknown outcome that noteUnknown does not, as far
// as the row will still tell of them; known says that its line is in the input.
func (p *plan) noteBefore(op *checkpoint.Operation, known bool, to change, now time.Time) {
	n := 0
	for _, a := range op.Attempts {
		if a.Class == ClassUnknown && (to == stays || to == cutOff || stillCounts(a, now)) {
			n++
		}
	}
	switch {
	case known && op.Status == checkpoint.Unknown:
		n--
	case !known && op.Status == checkpoint.InFlight:
		n++
	}
	if n <= 0 {
		return
	}
	p.before += n
	p.sentAgain = p.sentAgain || SentAgain(op)
	if len(p.doubted) < maxListed {
		p.doubted = append(p.doubted, op.ID)
	}
}

// SentAgain says that an operation was sent after a call of it whose outcome is
// unknown, so that both may have been billed.
func SentAgain(op *checkpoint.Operation) bool {
	doubt := false
	for _, a := range op.Attempts {
		if doubt && a.Sent {
			return true
		}
		doubt = doubt || a.Class == ClassUnknown
	}
	return false
}
