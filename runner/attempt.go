package runner

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/result"
)

// attempt carries out one granted call: record, send, write, commit, in this
// order, each once what the one before it wrote is durable. Nothing waits: the
// store and the output go on with what follows, so that an operation has a
// goroutine of its own only while its call is on the wire. attempt, call and
// finish are the only places that touch an operation's row while the operation
// is under way, and they end with one eventStored or eventFatal.
//
// The row must be there before the first byte leaves: after a crash, an
// operation without a row was never sent, and one with a row may have been.
func (r *run) attempt(ctx context.Context, j *job) {
	body, stream := r.begin(j)
	r.book.putThen(&j.op, func(err error) {
		if err != nil {
			r.over(event{kind: eventFatal, job: j, fatal: unrecorded(j, err)})
			return
		}
		go r.call(ctx, j, body, stream)
	})
}

// begin notes in the operation's row that a call is under way, and returns what
// it sends.
func (r *run) begin(j *job) (body []byte, stream bool) {
	target, stream := &r.Targets[j.lane], r.streamed(j)
	j.op.Status = checkpoint.InFlight
	j.op.Provider, j.op.Model = target.Provider, j.rec.Model
	j.op.NotBefore = time.Time{}
	body, j.op.Degraded = r.concede(j)
	j.op.Attempts = append(j.op.Attempts, checkpoint.Attempt{
		At: j.granted, Provider: target.Provider, Model: j.rec.Model, Sent: true, Streamed: stream,
		Charge: checkpoint.Charge{Requests: j.cost.Requests, Tokens: j.cost.Tokens, Output: j.cost.Output},
	})
	return body, stream
}

// call sends what is recorded, and stores what comes of it.
func (r *run) call(ctx context.Context, j *job, body []byte, stream bool) {
	defer r.attempts.Done()
	mine := &j.op.Attempts[len(j.op.Attempts)-1]
	resp, err := do(ctx, r.client(j), provider.Request{
		API: j.rec.API, Model: j.rec.Model, Body: body, Key: j.key(&r.Targets[j.lane]), Stream: stream,
		OnSent: func(at time.Time) { r.events <- event{kind: eventSent, job: j, at: at} },
		// A look-up needs the id also after a crash. A store that fails is found
		// out when the attempt ends.
		OnID: func(id string) {
			mine.AnswerID = id
			_ = r.book.put(&j.op)
		},
	})
	if err != nil {
		r.failed(j, asProviderError(err))
		return
	}
	r.answered(j, resp)
}

// answered tells the dispatcher of an answer, and stores it.
func (r *run) answered(j *job, resp *provider.Response) {
	n := len(j.op.Attempts) - 1
	mine := &j.op.Attempts[n]
	mine.StatusCode, mine.RequestID, mine.At = resp.StatusCode, resp.RequestID, resp.SentAt
	r.events <- event{kind: eventAnswered, job: j, at: resp.Done, resp: resp}
	r.complete(j, resp)
}

// failed asks the dispatcher what becomes of an attempt that failed, and stores it.
func (r *run) failed(j *job, perr *provider.Error) {
	n := len(j.op.Attempts) - 1
	mine := &j.op.Attempts[n]
	mine.StatusCode, mine.Class, mine.RequestID, mine.Sent = perr.StatusCode, perr.Kind.String(), perr.RequestID, perr.Sent
	mine.AnswerID, j.op.RequestID = perr.AnswerID, perr.RequestID
	if perr.Unknown() {
		mine.Class = ClassUnknown
	}
	if !perr.SentAt.IsZero() {
		mine.At = perr.SentAt
	}
	reply := make(chan verdict, 1)
	r.events <- event{kind: eventFailed, job: j, at: time.Now(), err: perr, reply: reply}
	r.settle(j, <-reply)
}

// do makes the call. A defect of the client that one answer brings out ends that
// operation, not the run.
func do(ctx context.Context, c provider.Client, q provider.Request) (resp *provider.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			resp, err = nil, &provider.Error{Kind: provider.KindOther, Message: fmt.Sprintf("internal defect: %v", p), Rate: provider.NoRate(), Sent: true, SentAt: time.Now()}
		}
	}()
	return c.Do(ctx, q)
}

// complete makes an answer durable: the line first, synced, then the row that
// points to it. A crash between the two leaves a line that the next start
// adopts.
func (r *run) complete(j *job, resp *provider.Response) {
	j.op.RequestID, j.op.Finish = resp.RequestID, resp.Finish
	j.op.Usage = checkpoint.Usage{Input: resp.Usage.Input, Output: resp.Usage.Output, Cached: resp.Usage.Cached, Reasoning: resp.Usage.Reasoning, Known: resp.Usage.Known}
	j.op.LatencyMS = resp.Done.Sub(resp.SentAt).Milliseconds()
	line := r.line(j)
	line.Response = &result.Response{StatusCode: resp.StatusCode, RequestID: resp.RequestID, Body: resp.Body}
	if r.KeepNative {
		line.LLM.Native = resp.Native
	}
	var keep func()
	if r.cache != nil {
		keep = func() { r.keep(j, resp) }
	}
	r.finish(j, checkpoint.Completed, line, keep)
}

// streamed says that a job's next call asks for a stream. One that may have been
// paid for goes out as it did, since its key stands for those bytes.
func (r *run) streamed(j *job) bool {
	if last := j.bound(); last != nil {
		return last.Streamed
	}
	return r.Stream && streams(j.rec.API)
}

// streams says that an API can stream its answers.
func streams(api string) bool {
	switch api {
	case "/chat/completions", "/responses", "/completions", "/messages":
		return true
	default:
		return false
	}
}

// settle stores what the dispatcher decided on a failed attempt.
func (r *run) settle(j *job, v verdict) {
	if v.status == checkpoint.DeadLetter {
		r.bury(j, v.dead)
		return
	}
	j.op.Status, j.op.NotBefore = v.status, v.notBefore
	if err := r.book.put(&j.op); err != nil {
		r.fatal(j, unrecorded(j, err))
		return
	}
	r.events <- event{kind: eventStored, job: j, stored: v}
}

// bury writes a dead letter: to the errors file first, then its row.
func (r *run) bury(j *job, d deadLetter) {
	j.op.Class = d.class
	line := r.line(j)
	line.Error = &result.Error{Code: d.code, Message: d.msg}
	if d.status > 0 {
		line.Response = &result.Response{StatusCode: d.status, RequestID: j.op.RequestID, Body: d.body}
	}
	r.finish(j, checkpoint.DeadLetter, line, nil)
}

// finish appends the line of a finished operation and, once that is durable,
// commits its row. then, unless nil, is called when both are.
func (r *run) finish(j *job, status checkpoint.Status, line *result.Line, then func()) {
	v := verdict{status: status}
	w := r.book.out
	if status == checkpoint.DeadLetter {
		w = r.book.errs
	}
	if line.Error != nil {
		v.dead.msg = line.Error.Message
	}
	raw := line.Encode()
	r.attempts.Add(1)
	r.book.add(w, raw, func(at result.Span, err error) {
		if err != nil {
			r.over(event{kind: eventFatal, job: j, fatal: fmt.Errorf("write result of operation %s: %w", j.op.ID, err)})
			return
		}
		j.op.Status, j.op.Offset, j.op.Length, j.op.Finished = status, at.Offset, at.Length, time.Now()
		put := r.book.putSoon
		if r.last.Load() {
			put = r.book.putThen
		}
		put(&j.op, func(err error) {
			stored := event{kind: eventStored, job: j, stored: v}
			switch copied := r.Tee != nil && status == checkpoint.Completed; {
			case err != nil:
				r.over(event{kind: eventFatal, job: j, fatal: unrecorded(j, err)})
			case then == nil && !copied:
				r.over(stored)
			default:
				// A slow folder, or a reader that takes its time, holds back no call
				// whose row the same commit served.
				go func() {
					if then != nil {
						then()
					}
					if copied {
						r.tee(raw)
					}
					r.over(stored)
				}()
			}
		})
	})
}

// over tells the dispatcher how an attempt, or the storing of what needed none,
// ended.
func (r *run) over(ev event) {
	r.events <- ev
	r.attempts.Done()
}

func unrecorded(j *job, err error) error {
	return fmt.Errorf("record operation %s: %w", j.op.ID, err)
}

// line is what both kinds of finished operations tell of themselves.
func (r *run) line(j *job) *result.Line {
	return &result.Line{
		ID: j.op.Key, CustomID: j.rec.CustomID,
		LLM: result.Meta{
			Op: j.op.ID, Digest: hex.EncodeToString(j.op.Digest[:]), Key: j.op.Key, Line: j.rec.Line, Sum: fmt.Sprintf("%016x", j.op.Sum),
			Provider: j.op.Provider, Model: j.rec.Model, Attempts: j.tries(), Finish: j.op.Finish, Class: j.op.Class,
			Usage: result.Usage{
				InputTokens: j.op.Usage.Input, OutputTokens: j.op.Usage.Output,
				CachedTokens: j.op.Usage.Cached, ReasoningTokens: j.op.Usage.Reasoning,
			},
			LatencyMS: j.op.LatencyMS, Metadata: j.rec.Metadata, Incarnation: j.op.Incarnation, Run: r.book.meta.Salt, CopyOf: j.op.CopyOf, Cached: j.op.FromCache, LookedUp: j.found(),
			Degraded: j.op.Degraded,
		},
	}
}

// tee copies a line to the reader of standard output, whole lines at a time.
func (r *run) tee(raw []byte) {
	r.teeMu.Lock()
	defer r.teeMu.Unlock()
	if _, err := r.Tee.Write(append(raw, '\n')); err != nil {
		r.events <- event{kind: eventUnread, fatal: fmt.Errorf("write to standard output: %w", err)}
	}
}

func (r *run) fatal(j *job, err error) {
	r.events <- event{kind: eventFatal, job: j, fatal: err}
}

// asProviderError gives every failure of a client its typed form; one that is
// not typed is a defect of the client and ends the operation, not the run.
func asProviderError(err error) *provider.Error {
	var perr *provider.Error
	if errors.As(err, &perr) {
		return perr
	}
	return &provider.Error{Kind: provider.KindOther, Message: err.Error(), Err: err}
}
