package runner

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/llmbatch/llmbatch/checkpoint"
	"github.com/llmbatch/llmbatch/runner/limit"
)

// follows says that the headers may change how calls of a limit group are taken
// to be charged: the user has not said, and all its targets start alike.
func (c *Config) follows(group string) bool {
	var first *Target
	for i := range c.Targets {
		t := &c.Targets[i]
		if t.Group != group {
			continue
		}
		if first == nil {
			first = t
		}
		if t.Given || t.Accounting != first.Accounting {
			return false
		}
	}
	return true
}

// account names what a checkpoint's knowledge of charges is about.
func (t *Target) account() string { return cmp.Or(t.Group, t.Provider) }

// remembered is what earlier runs saw of how calls are charged; nothing if they
// went elsewhere.
func (c *Config) remembered(m *checkpoint.Meta) map[string]limit.Charging {
	known := map[string]limit.Charging{}
	base := c.Targets[0].BaseURL // a dry run may have none
	if was := m.Settings["base_url"]; was != "" && base != "" && was != base {
		return known
	}
	for account, text := range m.Charging {
		if c, ok := limit.ParseCharging(text); ok {
			known[account] = c
		}
	}
	return known
}

// follow charges what waits anew where an answer has shown that the lane's
// provider charges in another way.
func (s *scheduler) follow(l *lane) {
	if !l.limiter.Moved() {
		return
	}
	for _, other := range s.lanes {
		if other.limiter == l.limiter {
			other.reweigh()
		}
	}
	if s.moved != nil {
		s.moved(l)
	}
}

// tellCharging says that headers have shown another way to charge calls, and
// keeps it for later runs. Whether prompts are charged by tokens or characters
// is a detail.
func (d *dispatcher) tellCharging(l *lane) {
	now := l.charging()
	rough := now
	rough.Unit = limit.Either
	if d.charging[l.account()] != rough {
		d.charging[l.account()] = rough
		d.Notice(fmt.Sprintf("%s: headers show that calls are charged %s; reserving so from now on (was: %s)", l.name(), now, l.Accounting))
	}
	m := &d.book.meta
	m.Charging = maps.Clone(m.Charging)
	if m.Charging == nil {
		m.Charging = map[string]string{}
	}
	m.Charging[l.account()] = now.String()
	if err := d.book.store.SetMeta(*m); err != nil {
		d.fatalStop(fmt.Errorf("checkpoint: %w", err))
		d.cancel(err)
	}
}

// Charged is how a provider was found to charge calls against its token limit.
type Charged struct {
	Target string `json:"target"`
	As     string `json:"as"`
	Was    string `json:"was"` // the profile's
}

// charged lists what headers have shown, of each limit group once.
func (r *run) charged() (all []Charged) {
	seen := map[*limit.Limiter]bool{}
	for _, l := range r.sched.lanes {
		if c := l.charging(); !seen[l.limiter] && c != limit.As(l.Accounting) {
			all = append(all, Charged{l.name(), c.String(), l.Accounting.String()})
		}
		seen[l.limiter] = true
	}
	return all
}

// accounting names how the operations are charged.
func (d *dryRun) accounting() {
	l := d.sched.lanes[0]
	c := l.charging()
	d.f.Accounting = c.Of(d.capped || len(d.ops) == 0).String()
	if c != limit.As(l.Accounting) {
		d.f.Charging = c.String()
	}
}
