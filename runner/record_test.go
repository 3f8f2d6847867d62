package runner

import (
	"maps"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/runner/limit"
	"github.com/llmbatch/llmbatch/runner/money"
)

func TestRecorderCountsEvents(t *testing.T) {
	c := &Config{Targets: []Target{
		{Provider: "house", Model: "small", Group: "house", Price: money.Price{Known: true}}, {Provider: "rented", Model: "large", Group: "rented"},
	}}
	now := time.Unix(1_700_000_000, 0)
	s := newScheduler(c, &plan{}, now)
	rec := &recorder{groups: map[*limit.Limiter]string{s.lanes[0].limiter: "house/small", s.lanes[1].limiter: "rented/large"}}
	run := rec.Begin(now.UnixMilli())
	house := Event{Provider: "house", Model: "small"}
	with := func(e Event, edit func(*Event)) *Event { edit(&e); return &e }
	for _, e := range []*Event{
		with(house, func(e *Event) { e.What, e.Reserved, e.Output, e.Wait = Granted, 1100, 1000, 2*time.Second }),
		with(house, func(e *Event) { e.What, e.Reserved, e.Output = Sent, 1100, 1000 }),
		with(house, func(e *Event) { e.What, e.Reserved, e.Output = Granted, 1200, 1000 }),
		with(house, func(e *Event) { e.What, e.Reserved, e.Output = Sent, 1200, 1000 }),
		with(house, func(e *Event) {
			e.What, e.Used, e.Output, e.Latency, e.Cost = Answered, 180, 80, 900*time.Millisecond, 7
		}),
		with(house, func(e *Event) { e.What, e.Class, e.Unknown = Failed, "rate_limited", true }),
		with(house, func(e *Event) { e.What, e.Limit = Refused, "requests" }),
		{What: FellBack, FromProvider: "house", FromModel: "small", Provider: "rented", Model: "large", Reason: "rate_limited"},
		{What: Granted, Provider: "rented", Model: "large", Reserved: 1200, Output: 1000},
		{What: Failed, Provider: "rented", Model: "large", Class: "connect", Unsent: true},
		{What: Granted, Provider: "rented", Model: "large", Reserved: 1200, Output: 1000},
		{What: Sent, Provider: "rented", Model: "large", Reserved: 1200, Output: 1000},
		{What: Retried, Provider: "house", Model: "small", Class: "rate_limited"},
		{What: Failed, Provider: "rented", Model: "large", Class: "content_policy"},
		{What: DeadLettered, Provider: "rented", Model: "large", Class: "content_policy"},
		{What: Completed, Provider: "house", Model: "small"},
	} {
		rec.observe(s, e)
	}
	p := &rec.Now
	if p.Calls != 3 || p.Answered != 1 || p.Failed != 2 || p.Reserved != 3500 || p.Used != 180 || p.InFlight != 2 || p.Wait.N() != 4 {
		t.Errorf("got %+v", p)
	}
	if run.Completed != 1 || run.Doubtful != 1 || run.Dead["content_policy"] != 1 || run.Failed["connect"] != 1 || run.Refused["requests"] != 1 || run.Latency.N() != 1 || run.Output.N() != 1 || run.Caps.N() != 3 {
		t.Errorf("got %+v", run)
	}
	if want := map[string]int64{"house/small to rented/large (rate_limited)": 1}; !maps.Equal(run.Fallbacks, want) {
		t.Errorf("got %v, want %v", run.Fallbacks, want)
	}
	first := run.Targets[0]
	if len(run.Targets) != 2 || first.Group != "house/small" || !first.Priced || first.Calls != 2 || first.Answered != 1 || first.Output != 80 || first.Cost != 7 || run.Targets[1].Priced || run.Targets[1].Calls != 1 || run.Targets[1].Failed != 1 || run.Reserved != 3500 {
		t.Errorf("got targets %+v", run.Targets)
	}
}
