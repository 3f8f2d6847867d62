package limit

import "time"

// Window is one limit as a server's headers tell it. A negative figure was not said; the zero
// Window says nothing.
type Window struct {
	Limit, Remaining int64
	ResetAfter       time.Duration // until the window ends, or the bucket is full: servers differ
}

func (w Window) said() bool { return w.Remaining >= 0 && (w.Limit > 0 || w.ResetAfter > 0) }

// Report is what the headers of one answer say. The zero Report says nothing.
type Report struct {
	Requests, Tokens, Input, Output, RequestsDay, TokensDay Window
}

func (r Report) windows() [dims]Window {
	return [dims]Window{
		dReq: r.Requests, dTok: r.Tokens, dIn: r.Input, dOut: r.Output,
		dReqDay: r.RequestsDay, dTokDay: r.TokensDay,
	}
}

// refill is how a server's remaining figure comes back, as its own reports show it.
type refill uint8

const (
	refillUnknown refill = iota // taken for atReset
	atReset                     // all at once, at one instant: a fixed window
	continuous                  // a bucket: reset says when it will be full
	asItExpires                 // a sliding window whose reset moves along
)

const (
	// resetSlop is how far a reset may be off: many servers round it to seconds.
	resetSlop = int64(1200 * time.Millisecond)
	// reorder is how far apart two calls must be sent for the server to see them in that order. A
	// bucket is spent to the last token, so what was sent closer than that counts twice until it is
	// answered, and refill counts that much later: it only leaves a little in the bucket.
	reorder = int64(50 * time.Millisecond)
	// proof is how long a reset must stay before it proves a fixed window.
	proof = int64(3 * time.Second)
)

// server is what the headers have said of one budget.
type server struct {
	limit   int64 // as successes tell it; 0 = not known
	stated  int64 // as the last refusal told it
	long    bool  // the limit is not one of the budget's own span
	known   bool
	at      int64 // when the reporting call was sent
	remain  int64
	low     int64 // the least of what calls sent close to that one were told
	lowAt   int64
	resetAt int64 // 0 = not said
	sent    int64 // everything charged up to that call
	near    int64 // the part of it that the server may have seen only after that call
	used    int64 // our own part of the window then

	refill     refill
	anchorAt   int64 // where the present run of agreeing reports began
	anchorEnd  int64
	bucketAt   int64 // the same for reports that fit a bucket; 0 = the last one did not
	bucketLow  int64
	bucketHigh int64
	misses     int
}

// hear takes the report of an admitted call that was sent at the given time. An older call than that
// of the last report is out of date.
func (s *server) hear(w Window, at, span, sent, near, used int64) {
	if w.said() && s.known && at < s.at && at > s.at-reorder {
		s.remain = min(s.remain, clamp(w.Remaining)) // it came after the other one after all
	}
	if !w.said() || s.known && at < s.at {
		return
	}
	if w.Limit > 0 {
		s.limit = clamp(w.Limit)
	}
	first := !s.known
	s.known, s.at, s.remain, s.resetAt = true, at, clamp(w.Remaining), 0
	if first || s.remain <= s.low || at >= s.lowAt+reorder {
		s.low, s.lowAt = s.remain, at
	}
	s.remain = s.low // a call that was sent just before may have come after this one
	s.sent, s.near, s.used = sent, near, used
	if w.ResetAfter <= 0 || s.limit == 0 {
		return
	}
	reset := min(int64(w.ResetAfter), 400*int64(day))
	s.resetAt = at + reset
	s.long = reset > span+span/2
	s.learn(at, span, reset)
}

// learn decides how the remaining figure comes back. For a bucket the reset is the time that the
// missing part takes to refill, at every level; for a fixed window it is one instant, whatever the
// level; for a sliding window it may move along with the reports.
func (s *server) learn(at, span, reset int64) {
	missing := max(s.limit-s.remain, 0)
	full := int64(float64(missing) / float64(s.limit) * float64(span))
	if off := reset - full; !s.long && off < resetSlop+span/50 && off > -resetSlop-span/50 {
		if s.bucketAt == 0 {
			s.bucketAt, s.bucketLow, s.bucketHigh = max(at, 1), missing, missing
		}
		s.bucketLow, s.bucketHigh = min(s.bucketLow, missing), max(s.bucketHigh, missing)
		s.misses = 0
		if s.bucketHigh-s.bucketLow >= max(s.limit/8, 2) {
			s.refill = continuous
		}
	} else if s.misses++; s.misses >= 2 {
		s.bucketAt = 0
		if s.refill == continuous {
			s.refill, s.anchorAt = refillUnknown, 0
		}
	}
	moved := s.resetAt - s.anchorEnd
	switch {
	case s.anchorAt == 0 || at >= s.anchorEnd:
		s.anchorAt, s.anchorEnd = max(at, 1), s.resetAt
	case s.refill == continuous:
	case moved > resetSlop:
		s.refill = asItExpires
	case at-s.anchorAt >= proof && s.refill == refillUnknown:
		s.refill = atReset
	}
}

// room is what the server would still let through at now, if its last report holds, after all that
// was charged since (sent counts everything, used our part of the window, wire what is unanswered).
// said is false if there is no report in force.
func (s *server) room(now, span, sent, used, wire int64) (room int64, said bool) {
	if !s.known {
		return 0, false
	}
	switch {
	case s.refill == continuous && s.limit > 0:
		back := float64(s.limit) / float64(span) * float64(max(now-s.at-reorder, 0))
		level := s.remain - min(s.near, wire) + int64(min(back, float64(s.limit)))
		return min(s.limit, level) - (sent - s.sent), now-s.at < span
	case s.resetAt > 0 && now >= s.resetAt, s.resetAt == 0 && now >= s.at+span:
		return 0, false
	case s.refill == asItExpires, s.resetAt == 0:
		return s.remain + s.used - used, true
	}
	return s.remain - (sent - s.sent), true
}

// opens is when a room that falls short by lack will be enough, if nothing new is heard. own is our own
// part of the window.
func (s *server) opens(now, span, lack int64, own *window) int64 {
	end := s.resetAt
	if end == 0 {
		end = s.at + span
	}
	switch {
	case s.refill == continuous && s.limit > 0:
		return now + int64(float64(lack)/float64(s.limit)*float64(span)) + 1
	case s.refill == asItExpires, s.resetAt == 0:
		return min(end, own.frees(lack))
	}
	return end
}
