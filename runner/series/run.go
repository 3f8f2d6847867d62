package series

// Run is what one run of a checkpoint was and came to. Times are milliseconds of
// the Unix epoch.
type Run struct {
	From int64 `json:"from"`
	To   int64 `json:"to"` // as of the last point
	// Folded is how many earlier runs, the oldest of very many, are counted in this one's figures
	// without points of their own.
	Folded int `json:"folded,omitempty"`

	// How it ended: see the runner's stops; "" = it was killed, or still goes on.
	End    string `json:"end,omitempty"`
	Reason string `json:"reason,omitempty"`

	Limits   []Limit  `json:"limits,omitempty"`  // that Point.Uses are of
	Targets  []Target `json:"targets,omitempty"` // that calls went to
	Learned  bool     `json:"reserve_learned,omitempty"`
	Reserved int64    `json:"tokens_reserved"`
	Used     int64    `json:"tokens_used"`

	Latency   Histogram `json:"latency_ms,omitzero"`         // of answered calls
	Output    Histogram `json:"output_tokens,omitzero"`      // of answered calls
	Caps      Histogram `json:"reserved_output,omitzero"`    // of each call
	Uncapped  int64     `json:"uncapped_calls,omitempty"`    // calls that no cap was given for
	CutOff    int64     `json:"answers_cut_off,omitempty"`   // answers that ended at the cap
	Failed    Tally     `json:"failed,omitempty"`            // calls by class
	Dead      Tally     `json:"dead_letters,omitempty"`      // operations by class
	Refused   Tally     `json:"refused,omitempty"`           // by limit
	Retried   Tally     `json:"retried,omitempty"`           // by the class before
	Bound     Tally     `json:"bound_ms,omitempty"`          // by what held calls back; "" = nothing
	Fallbacks Tally     `json:"fallbacks,omitempty"`         // "house/small to cloud/large (reason)"
	Completed int64     `json:"completed,omitempty"`         // operations
	Spared    int64     `json:"copies,omitempty"`            // operations served by another's answer
	Doubtful  int64     `json:"unknown_outcomes,omitempty"`  // calls that may have been billed
	Wait      Histogram `json:"queue_wait_ms,omitzero"`      // of each call
	InFlight  int64     `json:"in_flight_most,omitempty"`    // at once
	Concur    Tally     `json:"concurrency_given,omitempty"` // the user's ceilings, by group
}

// Limit is one limit of one limit group.
type Limit struct {
	Group      string `json:"group"` // the first target of the group, provider/model
	Name       string `json:"name"`  // rpm tpm itpm otpm rpd tpd
	N          int64  `json:"n"`     // as it was last; 0 = not known
	Learned    bool   `json:"learned,omitempty"`
	Accounting string `json:"accounting,omitempty"`
}

// Target is what went to one model at one provider.
type Target struct {
	Provider       string `json:"provider"`
	Model          string `json:"model"`
	Group          string `json:"group"` // as in Limit
	Calls          int64  `json:"calls"`
	Answered       int64  `json:"answered"`
	Failed         int64  `json:"failed"`
	Reserved       int64  `json:"tokens_reserved"`
	ReservedOutput int64  `json:"tokens_reserved_output"` // part of Reserved where that counts output
	Used           int64  `json:"tokens_used"`
	Output         int64  `json:"tokens_output"`    // part of Used
	Latency        int64  `json:"latency_ms"`       // of Answered, together
	Cost           int64  `json:"cost,omitempty"`   // trillionths of the prices' unit
	Priced         bool   `json:"priced,omitempty"` // Cost is known
}

// maxTargets bounds the targets of a run: lines may name any model.
const maxTargets = 24

// Empty says that nothing was sent and nothing ended.
func (r *Run) Empty() bool { return len(r.Targets) == 0 && len(r.Dead) == 0 && r.Completed == 0 }

// Target finds what went to a model, or begins to count it. Beyond maxTargets, models
// share one entry by the name Other.
func (r *Run) Target(provider, model string) *Target {
	for i := range r.Targets {
		if t := &r.Targets[i]; t.Provider == provider && t.Model == model {
			return t
		}
	}
	if len(r.Targets) >= maxTargets {
		if last := &r.Targets[len(r.Targets)-1]; last.Model == Other {
			return last
		}
		model = Other
	}
	r.Targets = append(r.Targets, Target{Provider: provider, Model: model})
	return &r.Targets[len(r.Targets)-1]
}

// fold adds an earlier run's figures.
func (r *Run) fold(o *Run) {
	r.From = min(r.From, o.From)
	r.Folded += o.Folded + 1
	for _, t := range o.Targets {
		mine := r.Target(t.Provider, t.Model)
		mine.Calls, mine.Answered, mine.Failed = mine.Calls+t.Calls, mine.Answered+t.Answered, mine.Failed+t.Failed
		mine.Reserved, mine.ReservedOutput = mine.Reserved+t.Reserved, mine.ReservedOutput+t.ReservedOutput
		mine.Used, mine.Output, mine.Latency = mine.Used+t.Used, mine.Output+t.Output, mine.Latency+t.Latency
		mine.Cost, mine.Priced = mine.Cost+t.Cost, mine.Priced || t.Priced
		if mine.Group == "" {
			mine.Group = t.Group
		}
	}
	r.Reserved, r.Used = r.Reserved+o.Reserved, r.Used+o.Used
	r.Uncapped, r.CutOff = r.Uncapped+o.Uncapped, r.CutOff+o.CutOff
	r.Completed, r.Spared, r.Doubtful = r.Completed+o.Completed, r.Spared+o.Spared, r.Doubtful+o.Doubtful
	for _, h := range []struct{ to, from *Histogram }{{&r.Latency, &o.Latency}, {&r.Output, &o.Output}, {&r.Caps, &o.Caps}, {&r.Wait, &o.Wait}} {
		h.to.Merge(*h.from)
	}
	for _, t := range []struct{ to, from *Tally }{
		{&r.Failed, &o.Failed}, {&r.Dead, &o.Dead}, {&r.Refused, &o.Refused}, {&r.Retried, &o.Retried}, {&r.Bound, &o.Bound}, {&r.Fallbacks, &o.Fallbacks},
	} {
		t.to.Merge(*t.from)
	}
	r.InFlight = max(r.InFlight, o.InFlight)
}

// Sum is all runs' figures as one; the end is the last run's, and limits are those of
// the last run that met any.
func (s *Series) Sum() Run {
	var sum Run
	for i := len(s.Runs) - 1; i >= 0; i-- {
		r := &s.Runs[i]
		if i == len(s.Runs)-1 {
			sum = Run{From: r.From, To: r.To, End: r.End, Reason: r.Reason, Learned: r.Learned, Concur: r.Concur, Folded: -1}
		}
		if sum.Limits == nil {
			sum.Limits = r.Limits
		}
		sum.fold(r)
	}
	return sum
}
