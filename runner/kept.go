package runner

import (
	"errors"
	"fmt"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/cache"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/result"
)

// openCache opens the folder of kept answers, if the user named one.
func (r *run) openCache() (err error) {
	if r.Cache == "" {
		return nil
	}
	if r.cache, err = cache.Open(r.Cache, r.started); err != nil {
		return usage("name a folder that can be written to with --cache", "cache: %s", err)
	}
	return nil
}

// cacheKey names the answer to a job's request to a target of its route. ok is
// false for what is never served from the cache: a line that must not be sent
// twice, or has tools that the server runs, asks for an effect and not only for
// an answer.
func (r *run) cacheKey(j *job, lane int) (k cache.Key, ok bool) {
	if r.cache == nil || j.rec.Never {
		return k, false
	}
	t := &r.Targets[lane]
	digest := j.rec.Digest
	if j.way.Route != nil && lane != j.way.Lanes[0] {
		model, body := t.Model, j.rec.Body
		if model == "" {
			model = j.way.model
		}
		if model != j.rec.Model || j.rec.Capped {
			var err error
			if body, err = t.adapt(&j.rec, body, model); err != nil {
				return k, false
			}
		}
		digest = input.Digest(j.rec.API, model, body)
	}
	return cache.KeyOf(t.Provider, t.BaseURL, digest), true
}

// keptBy is the answer that a target of the job's route has given to the same
// request, in this run or an earlier one; nil = none is kept. The job may be
// pointed elsewhere. It reads a file, changes nothing, and may be called by
// several goroutines at once.
func (r *run) keptBy(j *job, lane int) *cache.Entry {
	k, ok := r.cacheKey(j, lane)
	if !ok {
		return nil
	}
	e, err := r.cache.Get(k)
	if err != nil {
		what := "an answer that is kept cannot be read"
		if errors.Is(err, cache.ErrDamaged) {
			what = "an answer that is kept is damaged"
		}
		r.tellCache.Do(func() { r.Notice(fmt.Sprintf("%s (asked again, as is any other like it): %s", what, err)) })
	}
	return e
}

// kept is keptBy for the target that the job is pointed at.
func (r *run) kept(j *job) *cache.Entry { return r.keptBy(j, j.lane) }

// worthKeeping says that an answer is what was asked for. One that ends at the
// cap which its own request names is: a larger cap is another request. One that
// was cut off otherwise, refused or filtered could be better another time.
func worthKeeping(j *job, resp *provider.Response) bool {
	switch resp.Finish {
	case provider.FinishStop, provider.FinishToolCalls:
		return true
	case provider.FinishLength:
		return j.tokens.MaxOutput > 0
	case "":
		return noOutput(j.rec.API)
	default:
		return false
	}
}

// keep stores an answer for later runs. The result is durable by then, so a
// failure is told once and costs no more than a call some day.
func (r *run) keep(j *job, resp *provider.Response) {
	k, ok := r.cacheKey(j, j.lane)
	if !ok || !worthKeeping(j, resp) || j.gave.cap > 0 || len(j.gave.trim) > 0 {
		return
	}
	u := resp.Usage
	err := r.cache.Put(k, &cache.Entry{
		Provider: r.Targets[j.lane].Provider, Model: j.rec.Model, StatusCode: resp.StatusCode, RequestID: resp.RequestID, Finish: resp.Finish,
		Usage:  cache.Usage{Input: u.Input, Output: u.Output, Cached: u.Cached, Reasoning: u.Reasoning, Known: u.Known},
		Stored: time.Now().UTC(), Body: resp.Body, Native: resp.Native,
	})
	if err != nil {
		r.tellCacheFull.Do(func() { r.Notice("answers are not kept: " + err.Error()) })
	}
}

// serve finishes a job with the answer that is kept for it, at no usage: the
// line first, synced, then the row, as for an answer that came.
func (r *run) serve(j *job) {
	defer r.attempts.Done()
	e := j.kept
	j.op.Provider, j.op.Model = r.Targets[j.lane].Provider, j.rec.Model
	j.op.FromCache, j.op.Finish, j.op.RequestID = true, e.Finish, e.RequestID
	j.op.NotBefore, j.op.Degraded = time.Time{}, nil
	if j.instead {
		j.op.Provider, j.op.Model, j.op.Degraded = e.Provider, e.Model, []string{gaveCached}
	}
	line := r.line(j)
	line.LLM.Model = j.op.Model
	line.Response = &result.Response{StatusCode: e.StatusCode, RequestID: e.RequestID, Body: e.Body}
	if r.KeepNative {
		line.LLM.Native = e.Native
	}
	r.finish(j, checkpoint.Completed, line, nil)
}

// look asks whether the target that a job was just pointed at has answered its
// request before. Only in a run with a cache does it ask anything.
func (s *scheduler) look(j *job) {
	if s.kept != nil {
		j.kept = s.kept(j)
	}
}

// substitute serves a job with the answer of another target of its route, if
// the pressure allows that and one is kept.
func (s *scheduler) substitute(j *job) bool {
	if !s.press.acts.CachedAnswer || s.keptBy == nil || j.op.Status == checkpoint.Unknown || !j.way.choice() {
		return false
	}
	for i := range j.way.Lanes {
		if n := s.laneAt(j, i); n != j.lane {
			if j.kept = s.keptBy(j, n); j.kept != nil {
				j.instead = true
				return s.serves(j)
			}
		}
	}
	return false
}

// serves takes a job whose answer is kept: next hands it out ahead of the
// queues, and no limit holds it back.
func (s *scheduler) serves(j *job) bool {
	if j.kept == nil {
		return false
	}
	s.served = append(s.served, j)
	s.size += j.kept.Size()
	return true
}

// nextServed is the next job that a kept answer serves, or nil.
func (s *scheduler) nextServed(now time.Time) *job {
	if len(s.served) == 0 {
		return nil
	}
	j := s.served[0]
	s.served = s.served[1:]
	if j.op.Status == checkpoint.Unknown {
		s.unsettled--
	}
	s.storing++
	s.count.CacheHits++
	s.tell(now, j, Event{What: CacheHit})
	return j
}
