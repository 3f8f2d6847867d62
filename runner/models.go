package runner

import (
	"slices"

	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/provider"
)

// keptModel is a model that lines keep at a target which replaces none.
type keptModel struct {
	target int
	model  string
}

// separate gives each model that lines name a target of its own beside those
// that leave lines their model: a provider limits its models one by one. Models
// beyond the first of them share the target they come from. Limits that flags
// give for a provider without naming a model hold for all of its models
// together: whoever names one number means it.
func (c *Config) separate(models []string) {
	c.given, c.kept = len(c.Targets), map[keptModel]int{}
	c.whole = len(models) < input.MaxModels
	for at := range c.given {
		if c.Targets[at].Model != "" || c.ForModel == nil && len(models) < 2 {
			continue
		}
		for _, model := range models {
			c.kept[keptModel{at, model}] = len(c.Targets)
			c.Targets = append(c.Targets, c.forModel(at, model))
		}
	}
}

// Priced refuses a bound on the cost where the target's price is not known.
func (t *Target) Priced() error {
	if t.Price.Known {
		return nil
	}
	return usage("give --price-input and --price-output, or a price in the config file, per million tokens", "--max-cost needs the price of every model in use; %s has none", t.name())
}

// bounded is Priced for every target that calls may go to.
func (c *Config) bounded() error {
	for i := range c.Targets {
		if err := c.Targets[i].Priced(); err != nil && c.MaxCost > 0 && !c.unused(i) {
			return err
		}
	}
	return nil
}

// forModel is the target of one model at a target that replaces none.
func (c *Config) forModel(at int, model string) (t Target) {
	if c.ForModel != nil {
		t = c.ForModel(at, model)
	} else if t = c.Targets[at]; !t.Limits.Given() {
		t.Group = t.Provider + "/" + model
	}
	t.Model, t.from = model, at+1
	return t
}

// unused says that no call goes to a target: all its models have one of their own.
func (c *Config) unused(at int) bool {
	return c.whole && c.Targets[at].Model == "" && slices.ContainsFunc(c.Targets, func(t Target) bool { return t.from == at+1 })
}

// at is the index of the target that serves a model at another one.
func (c *Config) at(target int, model string) int {
	if n, ok := c.kept[keptModel{target, model}]; ok {
		return n
	}
	return target
}

// serves finds the target that calls to a model at a provider go to; -1 = none
// does. One that names the model goes ahead of one that takes any.
func serves(targets []Target, provider, model string) int {
	n := slices.IndexFunc(targets, func(t Target) bool { return t.Provider == provider && t.Model == model })
	if n < 0 {
		n = slices.IndexFunc(targets, func(t Target) bool { return t.Provider == provider && t.Model == "" })
	}
	return n
}

// serving is the lane that a model's calls go through; nil = there is none.
func (s *scheduler) serving(provider, model string) *lane {
	var any *lane
	for _, l := range s.lanes {
		switch {
		case l.Provider != provider:
		case l.Model == model:
			return l
		case l.Model == "" && any == nil:
			any = l
		}
	}
	return any
}

// accountWide says that a failure is of the key or the host, so that other
// models of the same client fail alike.
func accountWide(k provider.Kind) bool {
	switch k {
	case provider.KindAuth, provider.KindQuotaExhausted, provider.KindRegion, provider.KindTLS:
		return true
	}
	return false
}

// siblings are the other lanes of the same target that lines keep their models
// at.
func (s *scheduler) siblings(l *lane) (all []*lane) {
	for i, o := range s.lanes {
		mine := l.from > 0 && (o.from == l.from || i == l.from-1)
		if o != l && (mine || o.from > 0 && s.lanes[o.from-1] == l) {
			all = append(all, o)
		}
	}
	return all
}

// laneAt is the index of the lane at the i-th target of the job's route.
func (s *scheduler) laneAt(j *job, i int) int { return s.own(j.way.Lanes[i], j.way.model) }
