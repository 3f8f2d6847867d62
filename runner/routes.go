package runner

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/route"
)

// Routes say which targets the operations of a task may go to.
type Routes struct {
	// Resolve gives the route of a line's task; an error ends the line.
	Resolve func(task string) (*Route, error)
	Tasks   []string // that the config names
	Text    string   // what of it changes requests, for the comparison with earlier runs
}

// Route is a task's route and where its targets are.
type Route struct {
	route.Route
	Lanes []int // of each of its targets, the index in Config.Targets
	// Clients are those that stand in for the targets' own on this route, with
	// other timeouts; nil = none does.
	Clients []provider.Client
}

// client is what the job's target is called with.
func (c *Config) client(j *job) provider.Client {
	if w := &j.way; w.Route != nil && w.at < len(w.Clients) && w.Clients[w.at] != nil {
		return w.Clients[w.at]
	}
	return c.Targets[j.lane].Client
}

// way is where on its route a job is.
type way struct {
	*Route
	model string // the line's own, for targets that replace none
	at    int    // index of the present target
	met   route.Set
	tried route.Tried
}

// choice says that the job could go elsewhere.
func (w *way) choice() bool { return w.Route != nil && len(w.Targets) > 1 }

// setOut puts a job at the start of its route, with the model that the route
// asks for in place of the line's. What is asked of the first target is the
// request that results are known by, whoever answers.
func (c *Config) setOut(j *job) error {
	if c.Routes == nil {
		j.lane = c.at(0, j.rec.Model)
		return nil
	}
	r, err := c.Routes.Resolve(j.rec.Task)
	if err != nil {
		return err
	}
	j.way = atStart(r, j.rec.Priority)
	j.way.model = j.rec.Model
	own := j.rec.Body
	if err := c.steer(j, 0); err != nil {
		return err
	}
	if !bytes.Equal(own, j.rec.Body) {
		j.rec.Digest = input.Digest(j.rec.API, j.rec.Model, j.rec.Body)
	}
	return nil
}

// atStart is a way of which nothing is gone yet.
func atStart(r *Route, p input.Priority) way {
	w := way{Route: r}
	if p == input.Low {
		w.met = route.SetOf(route.BatchLowPriority)
	}
	return w
}

// steer points a job at a target of its route.
func (c *Config) steer(j *job, at int) error {
	model := c.Targets[j.way.Lanes[at]].Model
	if model == "" {
		model = j.way.model
	}
	lane := c.at(j.way.Lanes[at], model)
	if model != j.rec.Model || j.rec.Capped {
		body, err := c.Targets[lane].adapt(&j.rec, j.rec.Body, model)
		if err != nil {
			return fmt.Errorf("line %d: %w", j.rec.Line, err)
		}
		j.rec.Body, j.rec.Model = body, model
	}
	j.way.at, j.lane = at, lane
	return nil
}

// redirect is steer for a job whose tokens are counted: they are counted anew
// where the other model's tokenizer differs.
func (c *Config) redirect(j *job, at int) error {
	model, factor := j.rec.Model, c.Targets[j.lane].Factor
	if err := c.steer(j, at); err != nil {
		return err
	}
	if to := c.Targets[j.lane].Factor; to != factor || !sameTokens(model, j.rec.Model) {
		if t, refuse := c.tokens(&j.rec, to); refuse == nil {
			j.tokens = t
		}
	}
	return nil
}

// sameTokens says that two models' tokens are reckoned alike.
func sameTokens(a, b string) bool {
	ea, _ := estimate.Encoding(a)
	eb, _ := estimate.Encoding(b)
	na, da := estimate.Factor(a)
	nb, db := estimate.Factor(b)
	return ea == eb && na*db == nb*da
}

// resume points a job of unknown outcome at the target that its last attempt
// went to: that one may have been paid. If the route no longer has it, the job
// stays where it is.
func (s *scheduler) resume(j *job) {
	n := len(j.op.Attempts)
	if n == 0 || !j.way.choice() {
		return
	}
	last := &j.op.Attempts[n-1]
	for i := range j.way.Lanes {
		l := s.lanes[s.laneAt(j, i)]
		if l.Provider == last.Provider && (l.Model == "" || l.Model == last.Model) && s.steer(j, i) == nil {
			s.look(j)
			return
		}
	}
}

func (t *Target) name() string {
	if t.Model == "" {
		return t.Provider
	}
	return t.Provider + "/" + t.Model
}

// RouteText lists a route's targets, for the comparison with earlier runs.
func RouteText(r *Route, targets []Target) string {
	all := make([]string, len(r.Lanes))
	for i, n := range r.Lanes {
		t := &targets[n]
		if all[i] = t.name(); t.BaseURL != "" {
			all[i] += " at " + t.BaseURL
		}
		if r.When[i] != 0 {
			all[i] += " when " + r.When[i].String()
		}
	}
	return strings.Join(all, "; ")
}
