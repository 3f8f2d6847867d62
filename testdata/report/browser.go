package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// browser is headless Chromium, in a new profile each time.
type browser struct{ dir string }

// start runs Chromium on a page and returns its output and its log.
func (b *browser) start(ctx context.Context, page string, args ...string) (stdout, stderr []byte, err error) {
	profile, err := os.MkdirTemp(b.dir, "profile-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(profile)
	args = append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
		"--hide-scrollbars", "--enable-logging=stderr", "--host-resolver-rules=MAP * ~NOTFOUND", "--user-data-dir=" + profile,
	}, append(args, "file://"+page)...)
	c := exec.CommandContext(ctx, "chromium", args...)
	var out, log bytes.Buffer
	c.Stdout, c.Stderr = &out, &log
	if err := c.Run(); err != nil {
		return nil, nil, fmt.Errorf("chromium: %w\n%s", err, log.Bytes())
	}
	return out.Bytes(), log.Bytes(), nil
}

var (
	console   = regexp.MustCompile(`(?m)^.*CONSOLE.*$`)
	initiator = regexp.MustCompile(`"initiator":"([^"]*)"`)
)

// quiet wants a page that says nothing on the console and asks for nothing, and keeps
// a picture of it.
func (b *browser) quiet(ctx context.Context, page, picture string) error {
	netLog := filepath.Join(b.dir, filepath.Base(page)+".net.json")
	_, log, err := b.start(ctx, page, "--window-size=1280,2600", "--screenshot="+picture, "--log-net-log="+netLog)
	if err != nil {
		return err
	}
	if said := console.Find(log); said != nil {
		return fmt.Errorf("on the console: %s", said)
	}
	requests, err := os.ReadFile(netLog)
	if err != nil {
		return err
	}
	for _, m := range initiator.FindAllSubmatch(requests, -1) {
		// The browser's own requests come from no origin.
		if from := string(m[1]); from != "not an origin" {
			return fmt.Errorf("a request was made by the page (origin %q)", from)
		}
	}
	light, err := brightness(picture)
	if err == nil && light < 0.7 {
		err = fmt.Errorf("the page is dark (%.2f) where that is not wanted", light)
	}
	return err
}

// control is a page that does what no report may, so that quiet is seen to notice.
func (b *browser) control(ctx context.Context) error {
	for name, body := range map[string]string{"asks": `<img src="http://127.0.0.1:9/x.png">`, "complains": `<script>console.error("x")</script>`} {
		page := filepath.Join(b.dir, name+".html")
		if err := os.WriteFile(page, []byte("<!DOCTYPE html><body>"+body), 0o600); err != nil {
			return err
		}
		if b.quiet(ctx, page, filepath.Join(b.dir, name+".png")) == nil {
			return fmt.Errorf("a page that %s passes", name)
		}
	}
	return nil
}

// dark wants the dark look on a narrow screen.
func (b *browser) dark(ctx context.Context, page, picture string) error {
	if _, _, err := b.start(ctx, page, "--window-size=390,2600", "--force-dark-mode", "--blink-settings=preferredColorScheme=0", "--screenshot="+picture); err != nil {
		return err
	}
	light, err := brightness(picture)
	if err == nil && light > 0.3 {
		err = fmt.Errorf("the page is light (%.2f) where dark is wanted", light)
	}
	return err
}

// paper wants a printable page of a few sheets.
func (b *browser) paper(ctx context.Context, page, to string) error {
	if _, _, err := b.start(ctx, page, "--no-pdf-header-footer", "--print-to-pdf="+to); err != nil {
		return err
	}
	pdf, err := os.ReadFile(to)
	if err != nil {
		return err
	}
	if sheets := bytes.Count(pdf, []byte("/Type /Page\n")); sheets < 1 || sheets > 12 {
		return fmt.Errorf("%d sheets, want a few", sheets)
	}
	return nil
}

// brightness of a picture, from 0 (black) to 1.
func brightness(path string) (float64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	picture, err := png.Decode(f)
	if err != nil {
		return 0, err
	}
	sum, n := 0.0, 0.0
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y += 7 {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x += 7 {
			r, g, b, _ := picture.At(x, y).RGBA()
			sum, n = sum+float64(r+g+b)/3/0xffff, n+1
		}
	}
	return sum / n, nil
}

const frame = `<!DOCTYPE html><body><script>
addEventListener("message", function (e) {
  var pre = document.createElement("pre");
  pre.id = "measured";
  pre.textContent = e.data;
  document.body.appendChild(pre);
});
</script><iframe style="width:%dpx;height:1800px;border:0" src="%s"></iframe>`

//go:embed measure.js
var script string

// drawn is what the script finds of one chart, in pixels of the page.
type drawn struct {
	Name          string
	Width, Height float64
	Paths         int      // that are to be seen
	Texts         []string // that are to be seen
	Outside       []string // texts that stick out of the drawing
	Overlap       []string // pairs of texts that cover each other
}

type measured struct {
	Width, Scroll float64 // of the window, and of what is in it
	Charts        []drawn
	Outside       []string // elements that stick out of the window
}

// measure has the page laid out with a script in it, and looks at each chart.
func (b *browser) measure(ctx context.Context, page string, width int, want []string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	policy := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`)
	if !policy.Match(text) {
		return errors.New("the page has no policy that forbids scripts and requests")
	}
	text = policy.ReplaceAll(text, nil)
	text = bytes.Replace(text, []byte("</body>"), []byte("<script>"+script+"</script></body>"), 1)
	inner := filepath.Join(b.dir, fmt.Sprintf("inner-%d-%s", width, filepath.Base(page)))
	probe := filepath.Join(b.dir, fmt.Sprintf("probe-%d-%s", width, filepath.Base(page)))
	// A window is never as narrow as a telephone; a frame may be.
	around := fmt.Sprintf(frame, width, filepath.Base(inner))
	if err := errors.Join(os.WriteFile(inner, text, 0o600), os.WriteFile(probe, []byte(around), 0o600)); err != nil {
		return err
	}
	dom, _, err := b.start(ctx, probe, "--window-size=1400,2000", "--virtual-time-budget=3000", "--dump-dom")
	if err != nil {
		return err
	}
	_, after, _ := strings.Cut(string(dom), `<pre id="measured">`)
	found, _, ok := strings.Cut(after, "</pre>")
	if !ok {
		return errors.New("the script has not run")
	}
	var m measured
	if err := json.Unmarshal([]byte(html.UnescapeString(found)), &m); err != nil {
		return err
	}
	return m.check(width, want)
}

func (m *measured) check(width int, want []string) error {
	var all []error
	wrong := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if m.Scroll > m.Width || int(m.Width) > width {
		wrong("the page is %g wide in a window of %g (%d)", m.Scroll, m.Width, width)
	}
	if len(m.Outside) > 0 {
		wrong("out of the window: %q", m.Outside)
	}
	var names []string
	for _, c := range m.Charts {
		names = append(names, c.Name)
		if c.Width < 250 || c.Height < 60 || c.Paths < 3 {
			wrong("%s: %g by %g with %d paths", c.Name, c.Width, c.Height, c.Paths)
		}
		if len(c.Outside)+len(c.Overlap) > 0 {
			wrong("%s: texts outside: %q, over each other: %q", c.Name, c.Outside, c.Overlap)
		}
		axes := 0
		for _, t := range c.Texts {
			if unit.MatchString(t) {
				axes++
			}
		}
		if least := map[bool]int{true: 1, false: 2}[c.Name == "Cost by model"]; axes < least {
			wrong("%s: no titles of its axes in %q", c.Name, c.Texts)
		}
	}
	for _, name := range want {
		if !slices.Contains(names, name) {
			wrong("no chart %q in %q", name, names)
		}
	}
	return errors.Join(all...)
}

// unit is what the titles of axes say.
var unit = regexp.MustCompile(`^((seconds|minutes|hours|days) since .*|requests a minute|tokens a minute|seconds|milliseconds|calls|tokens so far|refusals so far|retries so far|answers|output tokens|cost)$`)
