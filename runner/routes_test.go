package runner

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/route"
)

// station is a target of a test: a server behind some transport, and what it takes over on.
type station struct {
	to   http.RoundTripper
	when route.Set
}

// serving is a target that is a server of its own.
func serving(s *fake.Server, when ...route.Condition) station {
	return station{&fake.Transport{Server: s}, route.SetOf(when...)}
}

// routed sends everything along one route: house/small, cloud/large, spare/tiny.
func (d *desk) routed(line ...station) func(*Config) {
	r := &Route{Route: route.Route{Degrade: -1}}
	var targets []Target
	for i, s := range line {
		name := []string{"house", "cloud", "spare"}[i]
		ref := route.Ref{Provider: name, Model: []string{"small", "large", "tiny"}[i]}
		client, err := NewClient(Endpoint{Profile: profile(), Name: name, BaseURL: "http://127.0.0.1/v1", Transport: provider.TransportOptions{RoundTripper: s.to}})
		if err != nil {
			d.Fatal(err)
		}
		targets = append(targets, Target{Provider: ref.Provider, Model: ref.Model, Group: name, Client: client})
		r.Targets = append(r.Targets, route.Target{Ref: ref, Group: name})
		r.When, r.Lanes = append(r.When, s.when), append(r.Lanes, i)
	}
	return func(c *Config) {
		c.Targets = targets
		c.Routes = &Routes{Resolve: func(string) (*Route, error) { return r, nil }, Text: RouteText(r, targets)}
	}
}

// pair sends everything to house/small, and under some conditions to
// cloud/large, each on a server of its own.
func (d *desk) pair(house, cloud *fake.Server, when route.Set) func(*Config) {
	return d.routed(serving(house), serving(cloud, when.List()...))
}

// servedBy counts the results by the target that answered.
func (d *desk) servedBy() map[string]int {
	d.Helper()
	n := map[string]int{}
	for _, l := range d.lines(d.paths.Output) {
		n[l.LLM.Provider+"/"+l.LLM.Model]++
	}
	return n
}

func TestFallbackTakesOver(t *testing.T) {
	tests := []struct {
		name   string
		house  fake.Config
		when   route.Condition
		house0 int // results that the primary gives; -1 = some
	}{
		{"server errors", fake.Config{ErrorRate: 1, ErrorStatus: []int{500}}, route.Provider5xx, 0},
		{"overloaded", fake.Config{ErrorRate: 1, ErrorStatus: []int{529}}, route.Overloaded, 0},
		{"down", fake.Config{DownFrom: 1}, route.PrimaryUnavailable, 0},
		{"spent quota", fake.Config{QuotaAfter: 5, Latency: time.Second}, route.SpendExhausted, -1},
		{"wrong key", fake.Config{APIKey: "another"}, route.PrimaryUnavailable, 0},
		{"day's limit", fake.Config{RPD: 7, Latency: time.Second}, route.DailyLimit, -1},
		{"nothing", fake.Config{}, route.PrimaryUnavailable, 30},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, fake.Config{}, func(d *desk) {
				d.input(prompts(30)...)
				house, cloud := fake.New(test.house), fake.New(fake.Config{})
				s := d.run(d.pair(house, cloud, route.SetOf(test.when)))
				d.whole(ids(30)...)
				by := d.servedBy()
				if small := by["house/small"]; s.Stop != nil || test.house0 >= 0 && small != test.house0 || test.house0 < 0 && (small == 0 || small == 30) || small+by["cloud/large"] != 30 {
					d.Errorf("got results of %v, stop %+v", by, s.Stop)
				}
			})
		})
	}
}

func TestNoFallbackWithoutItsCondition(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(30)...)
		house, cloud := fake.New(fake.Config{QuotaAfter: 5, Latency: time.Second}), fake.New(fake.Config{})
		s := d.run(d.pair(house, cloud, route.SetOf(route.ContextLengthNeeded)))
		d.wantStop(s, StopProvider, "quota_exhausted")
		if n := cloud.Stats().Asked; n != 0 {
			d.Errorf("%d calls went to the fallback", n)
		}
		if s.Completed < 5 || s.Completed+s.Pending != 30 {
			d.Errorf("got %d completed, %d pending", s.Completed, s.Pending)
		}
	})
}

// A call that was lost on its way to the fallback may have been paid for
// there: the next run asks the fallback again, under the same key, although
// the primary is back.
func TestUnknownOutcomeGoesBackToItsProvider(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(6)...)
		house := fake.New(fake.Config{APIKey: "another"})
		cloud := fake.New(fake.Config{Latency: 30 * time.Second, HonourKeys: true})
		ctx, stop := context.WithCancel(d.Context())
		time.AfterFunc(10*time.Second, stop)
		s, err := Run(ctx, d.config(d.pair(house, cloud, route.SetOf(route.PrimaryUnavailable)), func(c *Config) { c.Grace = time.Second }))
		if err != nil {
			d.Fatal(err)
		}
		before := d.rows()
		doubtful := map[string]bool{}
		for id, op := range before {
			if op.Status == checkpoint.Unknown {
				doubtful[id] = true
			}
		}
		if s.Unknown == 0 || int(s.Unknown) != len(doubtful) {
			d.Fatalf("got %d unknown, %d in the checkpoint; want some", s.Unknown, len(doubtful))
		}
		house = fake.New(fake.Config{})
		d.run(d.pair(house, cloud, route.SetOf(route.PrimaryUnavailable)))
		for id, l := range d.whole(ids(6)...) {
			if doubtful[id] && l.LLM.Provider != "cloud" {
				d.Errorf("%s, whose call to cloud was lost, was answered by %s", id, l.LLM.Provider)
			}
		}
		d.wantSameKeys(before)
	})
}

func TestUnusablePrimary(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(4)...)
		cloud := fake.New(fake.Config{})
		d.run(d.pair(cloud, cloud, route.SetOf(route.PrimaryUnavailable)), func(c *Config) { c.Targets[0].Client = nil })
		if d.whole(ids(4)...); d.servedBy()["cloud/large"] != 4 {
			d.Errorf("got results of %v, want all of the fallback", d.servedBy())
		}
	})
}

func TestFallbackKeepsPricesApart(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(prompts(20)...)
		house, cloud := fake.New(fake.Config{QuotaAfter: 5, Output: 8}), fake.New(fake.Config{Output: 8})
		s := d.run(d.pair(house, cloud, route.SetOf(route.SpendExhausted)), func(c *Config) {
			c.Targets[0].Price.Known, c.Targets[1].Price.Known = true, true
			c.Targets[0].Price.Output, c.Targets[1].Price.Output = 1e9, 1e11
		})
		by := d.servedBy()
		if want := fmt.Sprintf("%.4f", 8*(0.001*float64(by["house/small"])+0.1*float64(by["cloud/large"]))); s.Cost != want {
			d.Errorf("got cost %s, want %s for %v", s.Cost, want, by)
		}
	})
}

func TestExamplesOfRoutesLoad(t *testing.T) {
	files, err := filepath.Glob("../testdata/routes/*")
	if err != nil || len(files) < 4 {
		t.Fatalf("got %q, %v", files, err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err == nil {
			_, err = route.Load(data, f)
		}
		if err != nil {
			t.Error(err)
		}
	}
}
