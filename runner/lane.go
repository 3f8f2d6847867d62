package runner

import (
	"time"

	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/money"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/queue"
	"github.com/llmbatch/llmbatch/runner/retry"
	"github.com/llmbatch/llmbatch/runner/route"
)

// Target is one provider and model that calls go to.
type Target struct {
	Provider   string          // as results and messages name it
	BaseURL    string          // for the comparison with earlier runs
	Configured bool            // a config file says where it is, not the command line
	Model      string          // replaces the line's; "" = the line's own
	Group      string          // targets of one group share one limiter
	Client     provider.Client // nil = it cannot be used
	Fault      error           // why not
	Limits     limit.Limits
	Accounting limit.Accounting
	Given      bool // Accounting is the user's: headers do not change it
	Price      money.Price
	Context    int64 // tokens of prompt and output together; 0 = not known
	DefaultCap int64 // output cap that is sent where a request names none; 0 = none is
	Factor     Factor

	from int // 1 + the index of the target whose lines keep this model; 0 = it was configured
	// CapParam names the member of a request to api that caps its output; nil =
	// as OpenAI's compatible servers have it.
	CapParam func(api, model string) string
}

// Factor is what a model's tokens are to those that are reckoned; the zero
// value stands for the stated factor of its kind (see estimate.Factor).
type Factor struct{ Num, Den int64 }

// lane is one target's side of the scheduler: what waits for it and what
// holds it back. The scheduler's owner owns it.
type lane struct {
	*Target
	limiter *limit.Limiter // of the target's group
	base    *lane          // of the target that this model was kept at; nil = there is none
	learned bool           // reserve the learned output under a cap too
	follows bool           // what the headers show of how calls are charged
	health  retry.Health
	breaker route.Breaker // only where there is another target to go to
	ready   queue.Ready[*job]
	delayed queue.Delayed[*job]
	outputs outputStats
	weighed int64 // the learned output that the queue was last weighed with
	ratios  ratios
	paused  time.Time     // until then the provider is taken to be down
	told    bool          // that it does not answer
	down    *Stop         // why nothing is sent any more in this run
	failing provider.Kind // the last of its own failures: what an open circuit is for
	halted  provider.Kind // the class that down is for; KindNone = there is none
	wire    int           // its calls granted and not yet answered

	press *pressure // of the run
	held  []*job    // ready, and held back under pressure
	bytes int       // of their bodies
}

// enqueue puts a job where it may go at once, or where it waits until the
// pressure is less.
func (l *lane) enqueue(j *job) {
	if l.press.holds(j) {
		l.held = append(l.held, j)
		l.bytes += len(j.rec.Body)
		return
	}
	l.charge(j)
	l.ready.Push(j, queue.Priority(j.rec.Priority), j.weight())
}

// charge sets what the job takes from the limiter.
func (l *lane) charge(j *job) {
	j.cost, j.reserved = l.costOf(j)
	j.cap = l.press.output(j, l.capOf(j))
}

// capOf is the output cap that goes out with the job; 0 = none does.
func (l *lane) capOf(j *job) int64 {
	if j.tokens.MaxOutput > 0 || noOutput(j.rec.API) {
		return int64(j.tokens.MaxOutput)
	}
	return l.DefaultCap
}

// capped says that the request names an output cap, or has no output at all.
func (l *lane) capped(j *job) bool { return l.capOf(j) > 0 || noOutput(j.rec.API) }

// release returns the jobs that are held.
func (l *lane) release() (all []*job) {
	all, l.held, l.bytes = l.held, nil, 0
	return all
}

// costOf is what a job would take from the limiter, and the output in it.
func (l *lane) costOf(j *job) (c limit.Cost, reserved int64) {
	return l.costWith(j, l.press.output(j, l.capOf(j)))
}

// costWith is costOf with an output of at most so many tokens; 0 = no cap.
func (l *lane) costWith(j *job, output int64) (c limit.Cost, reserved int64) {
	reserved = output
	// A budget of outputs counts what is generated, whatever the cap.
	least := l.learned || l.charging().Form == limit.Split && l.outputs.n >= 20
	if learned := l.outputs.p99(); reserved == 0 || least && learned < reserved {
		reserved = learned
	}
	if noOutput(j.rec.API) {
		reserved = 0
	}
	return l.cut(l.chargeOf(j, reserved)), reserved
}

// full says that as many calls are on the wire as the user allows the lane. The
// limiter's own ceiling is for all lanes of its group.
func (l *lane) full() bool {
	return l.Limits.Concurrency > 0 && l.wire >= l.Limits.Concurrency || l.base != nil && l.base.full()
}

// busy counts the calls on the wire, with those of the lane's base.
func (l *lane) busy(n int) {
	l.wire += n
	if l.base != nil {
		l.base.wire += n
	}
}

// cut makes a charge fit the limits that the user gave. Push has refused what
// can never fit, so what is too large here is so by what was learned, and
// would otherwise wait for ever.
func (l *lane) cut(c limit.Cost) limit.Cost {
	for {
		name, n, never := l.limiter.Never(c)
		switch {
		case !never:
			return c
		case name == "itpm":
			c.Tokens = n
		case name == "otpm":
			c.Output = n
		default:
			c.Output = max(0, min(c.Output, n-c.Tokens))
			c.Tokens = min(c.Tokens, n)
		}
	}
}

// noOutput says that an API's answers have no output tokens to reserve.
func noOutput(api string) bool { return api == "/embeddings" || api == "/moderations" }

// charging is how the lane's provider charges calls: as its profile or the
// user says, or as its headers have shown.
func (l *lane) charging() limit.Charging {
	if l.follows {
		return l.limiter.Charging()
	}
	return limit.As(l.Accounting)
}

// chargeOf is the pacing charge. OpenAI's limiter goes by characters, other
// servers by tokens: until the headers show which, the larger of the two is safe
// for both.
func (l *lane) chargeOf(j *job, output int64) limit.Cost {
	c := l.charging()
	return c.Of(l.capped(j)).Charge(c.Prompt(l.prompt(j), byCharacters(&j.tokens)), output)
}

// byCharacters is what OpenAI's limiter was seen to charge a prompt:
// ceil(characters/4)+1, and 765 for each image whatever its size.
func byCharacters(t *estimate.Tokens) int64 {
	return int64(t.Chars+3)/4 + 1 + 765*int64(t.Pictures)
}

// seen is what the limiter needs to find out how calls are charged.
func (l *lane) seen(j *job, u provider.Usage) limit.Call {
	if !u.Known {
		return limit.Call{}
	}
	c := limit.Call{
		Prompt: int64(j.tokens.Prompt), Billed: u.Input, Characters: byCharacters(&j.tokens),
		Reserved: j.reserved, Output: u.Output, Capped: l.capped(j),
	}
	if c.Capped {
		c.Reserved = l.capOf(j) // the whole, whatever was reserved of it
	}
	return c
}

// prompt is what the job's prompt is likely to be billed.
func (l *lane) prompt(j *job) int64 {
	return l.ratios.correct(j.rec.Model, int64(j.tokens.Prompt))
}

// usedBy is what an answered call turns out to charge. The output stays as it
// was reserved, unless the headers show that the provider gives it back, or it
// has a budget of its own: that one counts what is generated. The prompt part
// becomes what was billed, but where the limiter goes by characters.
func (l *lane) usedBy(j *job, u provider.Usage) (limit.Cost, bool) {
	charging := l.charging()
	form := charging.Of(l.capped(j))
	if !u.Known || form == limit.Max && charging.Unit == limit.Either && !charging.Back {
		return limit.Cost{}, false
	}
	prompt, output := u.Input, u.Output
	if charging.Unit == limit.Characters {
		prompt = byCharacters(&j.tokens)
	}
	if form != limit.Split {
		output = max(j.reserved, output)
	}
	c := form.Charge(prompt, output)
	if charging.Back && (form == limit.Sum || form == limit.Max) {
		c.Tokens = min(c.Tokens, u.Input+u.Output)
	}
	return l.cut(c), true
}

// learn takes from an answer what later reservations go by.
func (l *lane) learn(j *job, u provider.Usage) {
	if !noOutput(j.rec.API) && j.gave.cap == 0 {
		l.outputs.add(u.Output)
		if now := l.outputs.p99(); 8*max(now-l.weighed, l.weighed-now) > l.weighed {
			l.weighed = now
			l.reweigh()
		}
	}
	if len(j.gave.trim) == 0 {
		l.ratios.add(j.rec.Model, int64(j.tokens.Prompt), u.Input)
	}
}

// reweigh charges what waits anew: it was queued with what was known then.
func (l *lane) reweigh() {
	for _, j := range l.ready.Drain() {
		l.enqueue(j)
	}
}

// pick takes the job that fits best from the queue, with its reservation, or
// says what it waits for. afford is asked before anything is reserved.
func (l *lane) pick(now time.Time, afford func(*job) bool) (*job, limit.Wait) {
	room := l.limiter.Room(now)
	if l.full() {
		return nil, limit.Wait{Until: now.Add(time.Hour), Reason: limit.AtCeiling}
	}
	fit := queue.Fit{Tokens: room.Tokens, Output: room.Output}
	low, high := l.ready.Spread()
	fit.Want, fit.Slack, fit.Balance = l.limiter.Balance(now, low, high)
	var j *job
	ok := room.Requests > 0
	if ok {
		j, ok = l.ready.Pop(fit)
	}
	if !ok {
		lightest, _ := l.ready.Lightest()
		return nil, l.limiter.Peek(now, limit.Cost{Requests: 1, Tokens: lightest})
	}
	wait := limit.Wait{Until: now.Add(time.Hour), Reason: waitCost}
	if afford(j) {
		j.ticket, wait = l.limiter.Reserve(now, j.cost)
		if wait.Reason == limit.Granted {
			return j, wait
		}
	}
	l.back(j)
	return nil, wait
}

// back returns a job that was picked in vain.
func (l *lane) back(j *job) { l.ready.PushFront(j, queue.Priority(j.rec.Priority), j.weight()) }

// Reasons to wait that are not the limiter's.
const (
	waitCost  limit.Reason = "cost bound" // until a call settles
	waitDown  limit.Reason = "provider down"
	waitRetry limit.Reason = "retry"
	waitOpen  limit.Reason = "open circuit"
)
