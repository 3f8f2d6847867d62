package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/cache"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/money"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/queue"
	"github.com/llmbatch/llmbatch/runner/retry"
	"github.com/llmbatch/llmbatch/runner/route"
)

// job is one operation on its way. The dispatcher owns it, but between a
// grant and the stored event, when its attempt does.
type job struct {
	entry  int
	lane   int // index of the target that it goes to
	way    way // nothing where there is one target
	rec    input.Record
	op     checkpoint.Operation // its row
	tokens estimate.Tokens
	refuse *deadLetter  // set when it cannot be sent at all
	unfit  route.Tried  // the targets of its route that cannot carry its request
	kept   *cache.Entry // the answer that serves it; nil = it is to be asked
	hold   bool         // its outcome is unknown and it must not be sent again

	after        func(time.Time) verdict // what becomes of it if a look-up finds nothing; nil = it is sent again
	looking      bool                    // a look-up of it is to be made
	looked       string                  // the answer's id of which a look-up told all
	looks        int                     // look-ups so far
	lookFailures int                     // those that failed

	cost     limit.Cost
	reserved int64 // output tokens in cost and in the cost bound
	cap      int64 // of the output; 0 = none goes out with it
	ticket   limit.Ticket
	state    retry.State
	dear     money.Amount // what it can cost, while it is on the wire
	due      time.Time    // since when it could have been granted
	granted  time.Time
	attempt  int  // the number of the last one granted; 0 = none yet
	again    bool // bytes of an earlier one left
	went     bool // bytes of it left, as observers know
	onWire   bool
	doubted  bool // an earlier call of it is of unknown outcome

	before struct{ provider, model, class string } // the attempt ahead of the last one granted; not set if nobody watches

	instead  bool       // kept is another target's answer
	gave     concession // what the last request gave up under pressure
	keepsCap bool       // its output cap must stay as it is
}

// small says that the job is at the smaller model of its route.
func (j *job) small() bool { return j.way.Route != nil && j.way.at == j.way.Degrade }

func (j *job) weight() queue.Weight {
	return queue.Weight{Tokens: j.cost.Tokens, Output: j.cost.Output}
}

// tries counts the attempts since the row started anew; those before it are
// kept for the limits alone.
func (j *job) tries() (n int) {
	for i := range j.op.Attempts {
		if !j.op.Attempts[i].At.Before(j.op.Created) {
			n++
		}
	}
	return n
}

// wasSent says that bytes of one of these attempts left.
func (j *job) wasSent() bool {
	return slices.ContainsFunc(j.op.Attempts, func(a checkpoint.Attempt) bool { return a.Sent && !a.At.Before(j.op.Created) })
}

// bound is the last attempt for whose bytes a server may know the job's key: its
// outcome is unknown, or it was answered, with nothing of use or with what is
// lost. Refusals since then change nothing. nil = there is none.
func (j *job) bound() *checkpoint.Attempt {
	all := j.op.Attempts
	if n := len(all); n > 0 && j.op.Status == checkpoint.Unknown {
		return &all[n-1]
	}
	for i := len(all) - 1; i >= 0 && !all[i].At.Before(j.op.Created); i-- {
		if a := &all[i]; a.Model == j.rec.Model && (a.Class == ClassUnknown || a.StatusCode/100 == 2) {
			return a
		}
	}
	return nil
}

// found says that the answer was looked up.
func (j *job) found() bool {
	n := len(j.op.Attempts)
	return n > 0 && j.op.Attempts[n-1].LookedUp
}

// deadLetter is why an operation ends without an answer.
type deadLetter struct {
	class, code, msg string
	status           int
	body             []byte
}

// idempotencyKey is the same for every attempt of one incarnation of an
// operation, also across restarts, and says nothing about the prompt.
func idempotencyKey(salt, op string, digest [32]byte, incarnation int) string {
	h := sha256.New()
	for _, part := range []string{salt, op, string(digest[:]), strconv.Itoa(incarnation)} {
		h.Write([]byte(strconv.Itoa(len(part))))
		h.Write([]byte{':'})
		h.Write([]byte(part))
	}
	return "llmbatch-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// key is the idempotency key that a target gets: the operation's own, but where
// it is not the first of the route. Its request is another one then, which a
// server that honours keys refuses under a key that it knows.
func (j *job) key(t *Target) string {
	if j.way.at == 0 {
		return j.op.Key
	}
	return idempotencyKey(j.op.Key, t.name(), j.op.Digest, j.op.Incarnation)
}

// verdict is what the dispatcher decided on a failed attempt.
type verdict struct {
	status    checkpoint.Status // Delayed, Unknown or DeadLetter
	notBefore time.Time
	again     bool // goes back to the queue of this run
	dead      deadLetter
}

// eventKind says what happened to a job.
type eventKind uint8

const (
	eventSent     eventKind = iota // the request was written
	eventAnswered                  // a whole answer came
	eventFailed                    // no answer; reply wants a verdict
	eventLooked                    // a look-up ended; reply wants a verdict
	eventStored                    // what became of it is durable
	eventFatal                     // the store or a file failed
	eventUnread                    // nobody takes the copies of results
)

// event is what attempts tell the dispatcher.
type event struct {
	kind   eventKind
	job    *job
	at     time.Time
	resp   *provider.Response
	found  *provider.Found
	err    *provider.Error
	fatal  error
	reply  chan verdict
	stored verdict
}
