package runner

import (
	"context"
	"strings"
	"testing"

	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/provider/fake"
)

// brittle is a client with a defect that some prompts bring out.
type brittle struct{ provider.Client }

func (b brittle) Do(ctx context.Context, q provider.Request) (*provider.Response, error) {
	if strings.Contains(string(q.Body), "poison") {
		var none *provider.Response
		return &provider.Response{Body: none.Body}, nil
	}
	return b.Client.Do(ctx, q)
}

// TestDefectEndsItsLineAlone: a panic over one line, where its request is made
// or where its answer is read, makes that line a dead letter.
func TestDefectEndsItsLineAlone(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Config{}, func(d *desk) {
		d.input(append(prompts(5), ask("p5", "poison"), `{"custom_id":"p6","prompt":"x","model":"poison","max_tokens":8}`)...)
		s := d.run(func(c *Config) {
			c.Targets[0].Client = brittle{d.client}
			c.Settings = &input.Settings{Model: "small", OutputCap: func(model string) string {
				if model == "poison" {
					panic("no such cap")
				}
				return "max_tokens"
			}}
		})
		if s.Completed != 5 || s.Failed != 2 {
			t.Errorf("got %d completed and %d failed, want 5 and 2", s.Completed, s.Failed)
		}
		d.wantClass("p5", "other")
		d.wantClass("p6", "internal")
		for id, l := range d.lines(d.paths.Errors) {
			if l.Error == nil || !strings.Contains(l.Error.Message, "internal defect") {
				t.Errorf("%s: got %+v, want it called an internal defect", id, l.Error)
			}
		}
		again := d.run(func(c *Config) { c.RetryFailed = []string{"all"} })
		if again.Completed != 7 || again.Failed != 0 {
			t.Errorf("mended: got %d completed and %d failed, want 7 and 0", again.Completed, again.Failed)
		}
	})
}
