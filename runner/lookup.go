package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/retry"
)

// An operation of unknown outcome whose answer has an id is looked up, once its
// time has come, before it is sent again, held or given up. Look-ups take
// nothing from the limits, which are for what is generated, and count as no
// attempt; at most so many are out at once.
const maxLooking = 16

const (
	// maxLookFailures look-ups that fail in a row mean that there are none.
	maxLookFailures = 3
	// lookAgain is when a call that is still being worked on, or a look-up that
	// failed, is asked about again; then after twice as long, up to lookSlowly.
	lookAgain, lookSlowly = 5 * time.Second, 30 * time.Second
	// lookTimeout is the longest time of one look-up: it generates nothing, so a
	// server that does not answer has none.
	lookTimeout = 30 * time.Second
)

// findable says that the job's last attempt may have been paid for, and that
// its target can be asked what became of it.
func (s *scheduler) findable(j *job) bool {
	n := len(j.op.Attempts)
	if n == 0 || s.stop != nil {
		return false
	}
	last, l := &j.op.Attempts[n-1], s.lane(j)
	if last.Class != ClassUnknown || last.AnswerID == "" || last.Provider != l.Provider || j.looked == last.AnswerID {
		return false
	}
	_, can := l.Client.(provider.Looker)
	return can
}

// ready takes a job whose time has come: to be looked up, or to its queue.
func (s *scheduler) ready(j *job) {
	if s.findable(j) {
		s.lookups = append(s.lookups, j)
	} else {
		s.lane(j).enqueue(j)
	}
}

// wake moves what is due on and returns when more will be.
func (s *scheduler) wake(now time.Time, l *lane) time.Time {
	for {
		j, due := l.delayed.Pop(now)
		if !due {
			at, _ := l.delayed.Next()
			return at
		}
		s.ready(j)
	}
}

// nextLookUp is the next job to be looked up, or nil.
func (s *scheduler) nextLookUp() *job {
	if len(s.lookups) == 0 || s.looking >= maxLooking {
		return nil
	}
	j := s.lookups[0]
	s.lookups = s.lookups[1:]
	s.looking++
	s.storing++
	j.looking = true
	return j
}

// lookFirst puts a look-up between a last failure and what would become of the
// operation.
func (s *scheduler) lookFirst(j *job, sent time.Time, after func(time.Time) verdict) verdict {
	j.after = after
	return verdict{status: checkpoint.Unknown, again: true, notBefore: sent.Add(retry.ReconcileDelay)}
}

// lookUp asks what became of a job's last call. An answer that is found
// completes it as if it had come.
func (r *run) lookUp(ctx context.Context, j *job) {
	defer r.attempts.Done()
	last := &j.op.Attempts[len(j.op.Attempts)-1]
	ev := event{kind: eventLooked, job: j, reply: make(chan verdict, 1)}
	found, err := lookUp(ctx, r.client(j).(provider.Looker), provider.Request{API: j.rec.API, Model: j.rec.Model, Body: j.rec.Body}, last.AnswerID)
	if err != nil {
		ev.err = asProviderError(err)
	}
	ev.at, ev.found = time.Now(), found
	r.events <- ev
	switch v := <-ev.reply; {
	case v.status == checkpoint.Completed:
		last.Class, last.StatusCode, last.LookedUp = "", found.Response.StatusCode, true
		found.Response.SentAt = found.Response.Done // its latency is not known
		r.complete(j, found.Response)
	case v.status != checkpoint.Pending:
		r.settle(j, v)
	}
}

// lookUp makes the request, in at most lookTimeout. A defect of the client is a look-up that failed.
func lookUp(ctx context.Context, l provider.Looker, q provider.Request, id string) (found *provider.Found, err error) {
	defer func() {
		if p := recover(); p != nil {
			found, err = nil, fmt.Errorf("internal defect: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return l.LookUp(ctx, q, id)
}

// looked decides what follows a look-up. A verdict of Pending leaves nothing to
// be stored: the job is in a queue again.
func (s *scheduler) looked(now time.Time, j *job, found *provider.Found, err *provider.Error) verdict {
	s.looking--
	j.looking = false
	last := &j.op.Attempts[len(j.op.Attempts)-1]
	e := Event{What: LookedUp, Reason: "failed"}
	if err == nil {
		e.Reason = found.Fate.String()
	}
	s.tell(now, j, e)
	later := err == nil && found.Fate == provider.FateRunning && now.Sub(last.At) < s.policy.OrDefaults().MaxWait
	if err != nil {
		j.lookFailures++
		later = j.lookFailures < maxLookFailures
	}
	switch {
	case err == nil && found.Fate == provider.FateAnswered:
		s.found(now, j, found.Response)
		return verdict{status: checkpoint.Completed}
	case later && s.stop == nil:
		wait := min(lookAgain<<min(j.looks, 8), lookSlowly)
		j.looks++
		s.storing--
		s.requeue(now, j, now.Add(wait))
		return verdict{}
	case s.stop != nil:
		s.storing-- // the next start looks again
		return verdict{}
	}
	j.looked = last.AnswerID
	if err == nil && found.Fate == provider.FateEnded && found.Failed {
		last.Class = provider.KindServer.String()
		s.settled(j)
	}
	if j.after != nil {
		after := j.after
		j.after = nil
		s.unqueue(now, j)
		return after(now)
	}
	s.storing--
	s.requeue(now, j, now)
	return verdict{}
}

// found counts an answer that was looked up. Its call has been counted, and
// charged in full against limits and the cost bound.
func (s *scheduler) found(now time.Time, j *job, resp *provider.Response) {
	s.unqueue(now, j)
	l, last := s.lane(j), &j.op.Attempts[len(j.op.Attempts)-1]
	if !last.At.Before(s.began) {
		s.money.spent -= j.dear
	}
	if resp.Usage.Known {
		s.money.spent += l.Price.Bill(resp.Usage.Input, resp.Usage.Cached, resp.Usage.Output)
		s.count.used(resp.Usage)
	} else {
		l.charge(j)
		s.money.spent += most(l.Price, j)
	}
	s.count.Found++
	last.Class = "" // nothing is in doubt any more
	s.settled(j)
	s.count.LastDone = now
}

// settled notes that one call of unknown outcome was not billed for nothing.
func (s *scheduler) settled(j *job) {
	s.count.Resolved++
	for i := range j.op.Attempts {
		if j.op.Attempts[i].Class == ClassUnknown {
			return
		}
	}
	if s.count.Cleared == nil {
		s.count.Cleared = map[string]bool{}
	}
	s.count.Cleared[j.op.ID] = true
}

// requeue puts a job that was looked up back, unless its lane went down.
func (s *scheduler) requeue(now time.Time, j *job, at time.Time) {
	l := s.lane(j)
	switch {
	case l.down != nil:
		s.unqueue(now, j)
		s.unsettled++ // its row still says so
		s.leave(l.down)
	case at.After(now):
		l.delayed.Push(j, at)
	default:
		l.enqueue(j)
	}
}

// unqueue takes a job that is looked up out of the figures of what waits.
func (s *scheduler) unqueue(now time.Time, j *job) {
	s.size -= len(j.rec.Body)
	s.unsettled--
	s.tell(now, j, Event{What: Left})
}
