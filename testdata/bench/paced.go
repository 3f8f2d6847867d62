package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// paced sends at 100 and at 1,000 calls a second: how well the pace is kept, how
// late grants are against an ideal clock, and what it costs.
func paced(ctx context.Context, b *bench) error {
	seconds := 30
	if b.short {
		seconds = 3
	}
	for _, rate := range []int{100, 1000} {
		if err := b.pace(ctx, rate, rate*seconds); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) pace(ctx context.Context, rate, n int) (err error) {
	dir, err := b.folder(n)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	z, err := b.zero(ctx, "-latency", "20ms")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, z.end()) }()
	// A burst of one is the even pace from the first call on.
	pace := []string{"--rpm", fmt.Sprint(60 * rate), "--burst", "1"}
	logged := append(slices.Clone(pace), "--log-file", "log", "--log-level", "debug", "--log-format", "json")
	s, err := b.complete(ctx, dir, b.product, z.url, n, logged...)
	if err != nil {
		return err
	}
	at, err := grants(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	// The first second is left out: before the first answers come, calls are few.
	at = at[rate:]
	took := at[len(at)-1].Sub(at[0])
	got := float64(len(at)-1) / took.Seconds()
	name := fmt.Sprintf("%d calls a second: ", rate)
	b.atMost(name+"off the pace", 100*max(got/float64(rate)-1, 1-got/float64(rate)), 0.5, 20, " %", fmt.Sprintf("%.2f a second", got))
	b.atMost(name+"wake-up lag, 99th percentile", late(at, rate), 5, 500, " ms", "grants against a clock of that rate")
	b.add(name+"processor time with a log of each transition", percent(s), "", "", true)
	if rate > 100 {
		return nil
	}
	if s, err = b.complete(ctx, dir, b.product, z.url, n, append(pace, "--output", "unlogged.jsonl", "--checkpoint", "unlogged.db")...); err != nil {
		return err
	}
	bare, err := b.run(ctx, dir, b.self, "net-http", z.url, "x.jsonl", fmt.Sprint(rate))
	if err != nil {
		return err
	}
	b.atMost(name+"processor time", share(s), 5, 50, " % of a core", "a net/http loop that keeps nothing: "+percent(bare))
	return nil
}

// share is the processor time that a run took, in percent of one core.
func share(s spent) float64 { return 100 * s.cpu.Seconds() / s.wall.Seconds() }

func percent(s spent) string { return number(share(s)) + " % of a core" }

// grants reads when calls were granted from a run's log.
func grants(path string) (all []time.Time, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e struct {
			Time time.Time
			Msg  string
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, err
		}
		if e.Msg == "granted" {
			all = append(all, e.Time)
		}
	}
	return all, lines.Err()
}

// late is the 99th percentile of how long after its ideal instant a grant came,
// in milliseconds. The clock starts where no grant is ahead of it.
func late(at []time.Time, rate int) float64 {
	lags := make([]float64, len(at))
	for i, t := range at {
		lags[i] = t.Sub(at[0]).Seconds()*1000 - float64(i)*1000/float64(rate)
	}
	slices.Sort(lags)
	return lags[len(lags)*99/100] - lags[0]
}
