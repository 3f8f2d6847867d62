package runner

import (
	"errors"
	"strings"
	"testing"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
	"github.com/llmbatch/llmbatch/runner/route"
)

// formal makes a target speak Anthropic's format, which has no place for a
// logit_bias.
func formal(d *desk, t *Target, s *fake.Server) {
	p, _ := provider.Lookup("anthropic")
	key, err := provider.NewSecret("k")
	if err == nil {
		t.Client, err = NewClient(Endpoint{
			Profile: p, Name: t.Provider, BaseURL: "http://127.0.0.1/v1", Key: key,
			Transport: provider.TransportOptions{RoundTripper: &fake.Transport{Server: s}},
		})
	}
	if err != nil {
		d.Fatal(err)
	}
}

const biased = `{"custom_id":"b","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":5,"logit_bias":{"1":2}}}`

// What a target has no way to carry is found ahead of everything: no call is
// counted, reserved, granted or recorded for it.
func TestWhatCannotBeCarriedIsFoundAtOnce(t *testing.T) {
	t.Parallel()
	for _, when := range []route.Condition{route.RateLimited, route.PrimaryUnavailable} {
		bubble(t, fake.Config{}, func(d *desk) {
			d.input(biased, ask("p", "plain"))
			house, cloud := fake.New(fake.Config{}), fake.New(fake.Config{})
			granted := map[string]string{}
			s := d.run(d.pair(house, cloud, route.SetOf(when)), func(c *Config) {
				formal(d, &c.Targets[0], house)
				c.Observe = func(e Event) {
					if e.What == Granted {
						granted[e.Op] = e.Provider
					}
				}
			})
			if granted["p"] != "house" {
				d.Errorf("p went to %q, want house", granted["p"])
			}
			if when == route.PrimaryUnavailable {
				if l := d.whole("b", "p")["b"]; l == nil || l.LLM.Provider != "cloud" || l.LLM.Attempts != 1 || granted["b"] != "cloud" {
					d.Errorf("got %+v, want an answer of the fallback by one attempt", l)
				}
				return
			}
			row := d.rows()["b"]
			if s.Failed != 1 || s.Calls != 1 || granted["b"] != "" || len(row.Attempts) != 0 || row.Status != checkpoint.DeadLetter {
				d.Errorf("got %d failed, %d calls, b granted to %q and its row %+v; want a dead letter without a call", s.Failed, s.Calls, granted["b"], row)
			}
			if l := d.lines(d.paths.Errors)["b"]; l == nil || l.LLM.Class != "invalid" || !strings.Contains(l.Error.Message, "logit_bias") {
				d.Errorf("got %+v, want the field named", l)
			}
		})
	}
}

// A fallback that alone can carry a line, and cannot be called, leaves it
// pending: it is no dead letter.
func TestWhatOnlyAShutFallbackCarriesStaysPending(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(biased, ask("p", "plain"))
		house := fake.New(fake.Config{})
		s := d.run(d.pair(house, fake.New(fake.Config{}), route.SetOf(route.PrimaryUnavailable)), func(c *Config) {
			formal(d, &c.Targets[0], house)
			c.Targets[1].Client, c.Targets[1].Fault = nil, errors.New("no key")
		})
		if s.Completed != 1 || s.Pending != 1 || s.Failed != 0 {
			d.Errorf("got %d completed, %d pending, %d failed; want 1, 1, 0", s.Completed, s.Pending, s.Failed)
		}
	})
}
