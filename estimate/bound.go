package estimate

import (
	"math"
	"time"
)

// Batch is what the duration of a batch depends on. A limit of zero is no
// limit.
type Batch struct {
	Ops         int64         // operations to send, one request each
	Tokens      int64         // sum of what the token limit charges for them
	RPM, TPM    int64         // requests and tokens a minute
	RPD, TPD    int64         // requests and tokens a day
	Concurrency int64         // requests in flight at once
	Latency     time.Duration // of one request
}

// Lower is a lower bound of a batch's duration under one model of the limits.
type Lower struct {
	Duration time.Duration // from the first request to the last answer
	Limit    string        // what binds: "rpm", "tpm", "rpd", "tpd", "concurrency", or "none"
}

// WindowBound returns the bound where a limit of R holds in every rolling
// minute, the window full at the start: the last of N requests leaves no sooner
// than 60 s * (ceil(N/R) - 1), and is answered one latency later. Tokens are
// the same with their sum W and the limit T, and days with 24 h. With C in
// flight at once the N-th is answered after ceil(N/C) latencies. The bound is
// the largest of these; of limits that bind for as many windows the one whose
// share is used more is named. "none" says that one latency is all there is.
func WindowBound(b Batch) Lower {
	return bound(b, func(n, limit int64, window time.Duration) float64 {
		return window.Seconds() * float64((n-1)/limit)
	})
}

// BucketBound returns the bound where a limit is a bucket of R that refills
// evenly, full at the start: 60 s * (N/R - 1) in place of whole windows. It is
// never above WindowBound's.
func BucketBound(b Batch) Lower {
	return bound(b, func(n, limit int64, window time.Duration) float64 {
		return window.Seconds() * (float64(n)/float64(limit) - 1)
	})
}

func bound(b Batch, last func(n, limit int64, window time.Duration) float64) Lower {
	if b.Ops <= 0 {
		return Lower{Limit: "none"}
	}
	low, limit, share := 0.0, "none", 0.0
	for _, l := range []struct {
		name     string
		n, limit int64
		window   time.Duration
	}{
		{"rpm", b.Ops, b.RPM, time.Minute},
		{"tpm", b.Tokens, b.TPM, time.Minute},
		{"rpd", b.Ops, b.RPD, 24 * time.Hour},
		{"tpd", b.Tokens, b.TPD, 24 * time.Hour},
	} {
		if l.limit <= 0 || l.n <= 0 {
			continue
		}
		d, s := last(l.n, l.limit, l.window), float64(l.n)/float64(l.limit)
		if d > low || d == low && low > 0 && s > share {
			low, limit, share = d, l.name, s
		}
	}
	if b.Concurrency > 0 {
		rounds := (b.Ops + b.Concurrency - 1) / b.Concurrency
		if d := b.Latency.Seconds() * float64(rounds-1); d > low {
			low, limit = d, "concurrency"
		}
	}
	d := min(low*float64(time.Second)+float64(b.Latency), math.MaxInt64/2)
	return Lower{Duration: time.Duration(d), Limit: limit}
}
