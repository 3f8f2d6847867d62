package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// write writes x.jsonl with n plain lines and returns the ids. Each prompt ends
// in marker, such as one of the mock's faults.
func write(dir string, n int, marker string) ([]string, error) {
	file, err := os.OpenFile(dir+"/x.jsonl", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriter(file)
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("op-%05d", i)
		fmt.Fprint(w, line(ids[i], fmt.Sprintf("Case %05d: say hello to Zoë. %s", i, marker)))
	}
	return ids, errors.Join(w.Flush(), file.Close())
}

// line is a plain input line.
func line(id, prompt string) string {
	return fmt.Sprintf(`{"id":%q,"prompt":%q,"model":"gpt-4o-mini","max_tokens":40}`+"\n", id, prompt)
}

// input makes x.jsonl of these prompts.
func (c *trial) input(prompts ...string) {
	var b strings.Builder
	c.ids = nil
	for i, p := range prompts {
		c.ids = append(c.ids, fmt.Sprintf("op-%05d", i))
		b.WriteString(line(c.ids[i], p))
	}
	c.write("x.jsonl", b.String())
}

func (c *trial) write(name, text string) {
	c.check(os.WriteFile(c.dir+"/"+name, []byte(text), 0o600))
}

func (c *trial) read(name string) []byte {
	raw, err := os.ReadFile(c.dir + "/" + name)
	c.check(err)
	return raw
}

// change edits a file of the trial.
func (c *trial) change(name string, edit func([]byte) []byte) {
	c.check(os.WriteFile(c.dir+"/"+name, edit(c.read(name)), 0o600))
}

func (c *trial) remove(name string) { c.check(os.Remove(c.dir + "/" + name)) }

func (c *trial) exists(name string) bool {
	_, err := os.Lstat(c.dir + "/" + name)
	return err == nil
}

// acknowledged reads what a killed run left: its last line may be torn.
func (c *trial) acknowledged() map[string]string {
	lines, err := harness.Acknowledged(c.results())
	c.check(err)
	return lines
}

// died notes what a killed run left: what it had acknowledged must stay, and
// calls that reached the server without a line were in flight. The checkpoint
// opens, and lists at least those as of unknown outcome.
func (c *trial) died() {
	c.suite.mu.Lock()
	c.suite.kills++
	c.suite.mu.Unlock()
	now := c.acknowledged()
	for id, line := range c.acked {
		c.want(now[id] == line, "I3: the line of %s was acknowledged and is gone or changed", id)
	}
	asked := c.asked
	if c.server != nil {
		asked = c.stats().Asked
	}
	flying := max(0, asked-c.asked-(len(now)-c.lines))
	c.flying += flying
	if _, err := os.Stat(c.checkpoint()); err == nil {
		var st struct {
			Unknown int `json:"possibly_billed_twice"`
		}
		p := c.tell(0, "status", "x.jsonl", "--checkpoint", c.checkpoint(), "--json")
		c.check(json.Unmarshal([]byte(p.Out.String()), &st))
		c.want(st.Unknown >= flying, "%d calls were in flight at a kill, and status lists %d of unknown outcome", flying, st.Unknown)
	}
	c.acked, c.asked, c.lines = now, asked, len(now)
}
