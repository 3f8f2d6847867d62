package runner

import (
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/route"
)

// unfit notes which targets of its route cannot carry a job's request: the
// provider's format may have no place for a field of it. If none can that it may
// go to, that is its end, told as the first of them says it.
func (c *Config) unfit(j *job) *deadLetter {
	if j.way.Route == nil {
		return refusal(check(c.Targets[j.lane].Client, &j.rec, j.rec.Model))
	}
	var first error
	for i, n := range j.way.Lanes {
		model := c.Targets[n].Model
		if model == "" {
			model = j.way.model
		}
		client := c.Targets[c.at(n, model)].Client
		if i < len(j.way.Clients) && j.way.Clients[i] != nil {
			client = j.way.Clients[i]
		}
		if err := check(client, &j.rec, model); err != nil {
			j.unfit = j.unfit.With(i)
			if first == nil {
				first = err
			}
		}
	}
	for i, when := range j.way.When {
		if !j.unfit.Has(i) && (i == 0 || when.Has(route.PrimaryUnavailable)) {
			return nil
		}
	}
	return refusal(first)
}

// check asks a client whether it can make a request of a record; one that cannot
// tell says so when it is called.
func check(client provider.Client, rec *input.Record, model string) error {
	c, ok := client.(provider.Checker)
	if !ok {
		return nil
	}
	return c.Check(provider.Request{API: rec.API, Model: model, Body: rec.Body})
}

// refusal is the dead letter of a request that is not sent; nil for nil.
func refusal(err error) *deadLetter {
	if err == nil {
		return nil
	}
	e := asProviderError(err)
	return &deadLetter{class: e.Kind.String(), code: codeOf(e), msg: e.Message}
}
