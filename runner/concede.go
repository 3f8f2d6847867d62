package runner

import (
	"strconv"
	"strings"

	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/route"
)

// What a result may have given up, as its line and its row name it. Figures
// follow after a colon.
const (
	gaveOutput = "max_tokens"
	gaveText   = "trim"
	gaveModel  = "smaller_model"
	gaveCached = "cached_answer"
	gaveFixed  = "fixed_answer"
)

// Gives lists the names of what a result may give up.
func Gives() []string { return []string{gaveOutput, gaveText, gaveModel, gaveCached, gaveFixed} }

// concede makes the body of a granted call and says what it gives up. Where
// nothing is to be given up it is the job's own, byte for byte.
func (r *run) concede(j *job) (body []byte, gave []string) {
	body = j.rec.Body
	if len(j.gave.trim) > 0 {
		if short, cut := r.shortened(j); short != nil {
			body = short
			for _, c := range cut {
				gave = append(gave, gaveText+":"+c.Field+":"+strconv.FormatInt(c.Chars, 10))
			}
		}
	}
	if most := j.gave.cap; most > 0 {
		// A body that cannot be read is the server's to refuse.
		if capped, lowered, err := input.LowerCap(body, r.Targets[j.lane].capParam(j.rec.API, j.rec.Model), most); err == nil && lowered {
			body, gave = capped, append(gave, gaveOutput+":"+strconv.FormatInt(most, 10))
		}
	}
	if j.small() {
		gave = append(gave, gaveModel)
	}
	return body, gave
}

// capParam is the member that caps the output of the job's request.
func (t *Target) capParam(api, model string) string {
	if t.CapParam == nil {
		return provider.Profile{}.CapParam(api, model)
	}
	return t.CapParam(api, model)
}

// adapt makes a body of the record ask the target for a model. Providers have
// different names for the output cap: one that llmbatch wrote gets the target's.
func (t *Target) adapt(rec *input.Record, body []byte, model string) ([]byte, error) {
	body, err := input.ReplaceModel(body, model)
	if err != nil || !rec.Capped {
		return body, err
	}
	return input.NameCap(body, t.capParam(rec.API, model))
}

// shortened is the job's request with fields of its line cut; nil if none is
// longer, or if the line cannot be read any more, which the next feed tells.
func (r *run) shortened(j *job) ([]byte, []input.Cut) {
	cuts := make([]input.Cut, len(j.gave.trim))
	for i, t := range j.gave.trim {
		cuts[i] = input.Cut{Field: t.Field, Chars: t.MaxChars}
	}
	body, cut, err := r.Input.Shortened(r.index, j.entry, r.Settings, cuts)
	if err != nil || len(cut) == 0 {
		return nil, nil
	}
	if r.Routes != nil {
		if body, err = r.Targets[j.lane].adapt(&j.rec, body, j.rec.Model); err != nil {
			return nil, nil
		}
	}
	return body, cut
}

// gaveOf reads back what a request gave up: the same one has to go out again
// under its key.
func gaveOf(what []string) (c concession) {
	for _, w := range what {
		name, rest, _ := strings.Cut(w, ":")
		n, err := strconv.ParseInt(rest[strings.LastIndexByte(rest, ':')+1:], 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case gaveOutput:
			c.cap = n
		case gaveText:
			c.trim = append(c.trim, route.Trim{Field: rest[:strings.LastIndexByte(rest, ':')], MaxChars: n})
		}
	}
	return c
}
