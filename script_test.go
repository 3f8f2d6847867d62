package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/llmbatch/llmbatch/checkpoint"
)

// stats ADDR FIELD=VALUE... compares figures of a mock's ledger; operators are
// = != >= <= > <.
func stats(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "stats addr field=value...")
	if err := checkStats(args[0], args[1:]); err != nil {
		ts.Fatalf("%v", err)
	}
}

func checkStats(addr string, conditions []string) error {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get("http://" + addr + "/stats")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return checkFields(raw, conditions)
}

// lines FILE N counts lines.
func lines(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "lines file n")
	if got := strings.Count(ts.ReadFile(args[0]), "\n"); strconv.Itoa(got) != args[1] {
		ts.Fatalf("%s: got %d lines, want %s", args[0], got, args[1])
	}
}

// ids FILE... wants every line of the files, taken together, to parse, to end
// in a newline, and to be of an operation of its own.
func ids(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 1, "ids file...")
	seen := map[string]string{}
	for _, name := range args {
		content := ts.ReadFile(name)
		if content != "" && !strings.HasSuffix(content, "\n") {
			ts.Fatalf("%s: the last line is torn", name)
		}
		number := 0
		for line := range strings.Lines(content) {
			number++
			var parsed struct {
				LLMBatch struct{ Op string }
			}
			where := fmt.Sprintf("%s:%d", name, number)
			if err := json.Unmarshal([]byte(line), &parsed); err != nil {
				ts.Fatalf("%s: %v", where, err)
			}
			op := parsed.LLMBatch.Op
			if op == "" {
				ts.Fatalf("%s: no llmbatch.op", where)
			}
			if before, twice := seen[op]; twice {
				ts.Fatalf("operation %s stands in %s and in %s", op, before, where)
			}
			seen[op] = where
		}
	}
}

// json FILE FIELD=VALUE... compares fields of the last line of a file, of
// stdout or of stderr, which must be one JSON object. Fields may be paths (a.b).
func jsonFields(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 1, "json file field=value...")
	content := strings.TrimRight(ts.ReadFile(args[0]), "\n")
	last := content[strings.LastIndexByte(content, '\n')+1:]
	if err := checkFields([]byte(last), args[1:]); err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
}

var condition = regexp.MustCompile(`^([\w.]+)(!=|>=|<=|=|>|<)(.*)$`)

func checkFields(raw []byte, conditions []string) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return fmt.Errorf("not one JSON object: %w in %.200q", err, raw)
	}
	for _, c := range conditions {
		parts := condition.FindStringSubmatch(c)
		if parts == nil {
			return fmt.Errorf("%q is no condition", c)
		}
		var value any = object
		for key := range strings.SplitSeq(parts[1], ".") {
			inner, _ := value.(map[string]any)
			found, ok := inner[key]
			if !ok {
				return fmt.Errorf("no field %s in %s", parts[1], raw)
			}
			value = found
		}
		if !holds(fmt.Sprint(value), parts[2], parts[3]) {
			return fmt.Errorf("got %s=%v, want %s; all: %s", parts[1], value, c, bytes.TrimSpace(raw))
		}
	}
	return nil
}

func holds(got, operator, want string) bool {
	g, gotErr := strconv.ParseFloat(got, 64)
	w, wantErr := strconv.ParseFloat(want, 64)
	if gotErr != nil || wantErr != nil {
		return operator == "=" && got == want || operator == "!=" && got != want
	}
	switch operator {
	case "=":
		return g == w
	case "!=":
		return g != w
	case ">=":
		return g >= w
	case "<=":
		return g <= w
	case ">":
		return g > w
	default:
		return g < w
	}
}

// waitfor stats ADDR FIELD=VALUE... | lines FILE N | grep PATTERN FILE | file FILE |
// answering CHECKPOINT N waits until the condition holds, the last one until the
// rows of N operations know the id of an answer under way; waitfor signal NAME INT|TERM|... goes on sending
// the signal until the process has ended.
func waitfor(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "waitfor stats|lines|grep|file|answering|signal ...")
	read := func(name string) string {
		raw, err := os.ReadFile(ts.MkAbs(name))
		if err != nil {
			return ""
		}
		return string(raw)
	}
	await(ts, strings.Join(args, " "), func() error {
		switch kind, rest := args[0], args[1:]; {
		case kind == "stats":
			return checkStats(rest[0], rest[1:])
		case kind == "file":
			_, err := os.Stat(ts.MkAbs(rest[0]))
			return err
		case kind == "signal" && len(rest) == 2 && signalsByName[rest[1]] != 0:
			if p := named(ts, rest[0]); p.running() {
				_ = p.cmd.Process.Signal(signalsByName[rest[1]]) // it may end now
				return errors.New("it still runs")
			}
			return nil
		case kind == "lines" && len(rest) == 2:
			want, err := strconv.Atoi(rest[1])
			if got := strings.Count(read(rest[0]), "\n"); err == nil && got < want {
				return fmt.Errorf("got %d lines, want at least %d", got, want)
			}
			return err
		case kind == "grep" && len(rest) == 2:
			matched, err := regexp.MatchString("(?m)"+rest[0], read(rest[1]))
			if err == nil && !matched {
				return fmt.Errorf("no match in %q", read(rest[1]))
			}
			return err
		case kind == "answering" && len(rest) == 2:
			got, err := answering(ts, rest[0])
			if err == nil && strconv.Itoa(got) != rest[1] {
				return fmt.Errorf("got %d, want %s", got, rest[1])
			}
			return err
		default:
			ts.Fatalf("usage: waitfor stats|lines|grep|file|answering|signal ...")
			return nil
		}
	})
}

// answering counts the operations in flight whose row knows the id of their
// answer. It reads a copy, since a run holds the checkpoint.
func answering(ts *testscript.TestScript, name string) (n int, err error) {
	raw, err := os.ReadFile(ts.MkAbs(name))
	if err != nil {
		return 0, err
	}
	copied := ts.MkAbs(name + ".copy")
	if err := os.WriteFile(copied, raw, 0o600); err != nil {
		return 0, err
	}
	store, err := checkpoint.OpenReadOnly(copied)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	err = store.All(func(op *checkpoint.Operation) error {
		if last := len(op.Attempts) - 1; last >= 0 && op.Status == checkpoint.InFlight && op.Attempts[last].AnswerID != "" {
			n++
		}
		return nil
	})
	return n, err
}

// generate FILE N writes N plain lines.
func generate(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "generate file n")
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `{"id":"op-%05d","prompt":"Where is parcel number %d?","model":"gpt-4o-mini","max_tokens":20}`+"\n", i, i)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o600))
}

// compress gz|zst FILE writes FILE.gz or FILE.zst and removes FILE.
func compress(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "compress gz|zst file")
	plain := ts.ReadFile(args[1])
	var packed bytes.Buffer
	var w io.WriteCloser
	switch args[0] {
	case "gz":
		w = gzip.NewWriter(&packed)
	case "zst":
		var err error
		w, err = zstd.NewWriter(&packed)
		ts.Check(err)
	default:
		ts.Fatalf("no compression %q", args[0])
	}
	_, err := io.WriteString(w, plain)
	ts.Check(errors.Join(err, w.Close()))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]+"."+args[0]), packed.Bytes(), 0o600))
	ts.Check(os.Remove(ts.MkAbs(args[1])))
}

// truncate FILE N cuts a file to N bytes, or by -N bytes.
func truncate(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "truncate file [-]n")
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	if strings.HasPrefix(args[1], "-") {
		info, err := os.Stat(ts.MkAbs(args[0]))
		ts.Check(err)
		n += info.Size()
	}
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}

// replace FILE OLD NEW replaces the one place that says OLD. Within OLD and NEW,
// \xNN and the like are understood as in Go.
func replace(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 3, "replace file old new")
	text := func(s string) string {
		unquoted, err := strconv.Unquote(`"` + strings.ReplaceAll(s, `"`, `\"`) + `"`)
		ts.Check(err)
		return unquoted
	}
	content, old := ts.ReadFile(args[0]), text(args[1])
	if n := strings.Count(content, old); n != 1 {
		ts.Fatalf("%s says %q %d times, want once", args[0], old, n)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Replace(content, old, text(args[2]), 1)), 0o600))
}

// mode FILE OCTAL compares permissions.
func mode(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "mode file octal")
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := fmt.Sprintf("%o", info.Mode().Perm()); got != args[1] {
		ts.Fatalf("%s: got mode %s, want %s", args[0], got, args[1])
	}
}

// examples [COMMAND...] runs what the help of a command, and of those below it,
// shows as examples, as a shell does. Without account and server, a run is a dry
// one, and a mock takes any port.
func examples(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg, "examples [command...]")
	help, err := command(ts, append(append([]string{"llmbatch"}, args...), "--help")).Output()
	ts.Check(err)
	below := section(string(help), "Available Commands:")
	for _, line := range below {
		if name, _, _ := strings.Cut(line, " "); name != "completion" && name != "help" {
			examples(ts, false, append(slices.Clone(args), name))
		}
	}
	lines := section(string(help), "Examples:")
	if len(lines) == 0 && len(below) == 0 {
		ts.Fatalf("llmbatch %s --help shows no example", strings.Join(args, " "))
	}
	for i, line := range lines {
		if strings.HasPrefix(line, "llmbatch mock") {
			name := fmt.Sprintf("example%d", i)
			start(ts, false, []string{name, "sh", "-c", "exec " + line + " --listen 127.0.0.1:0"})
			waitfor(ts, false, []string{"grep", "mock provider at", name + ".err"})
			continue
		}
		switch {
		case !strings.Contains(line, "llmbatch run") || strings.Contains(line, "--provider mock"):
		case strings.Contains(line, "--provider") || strings.Contains(line, "--config") || strings.Contains(line, "--metrics-addr"):
			line += " --dry-run" // a server, a key or a port that may not be there
		default:
			// Each in a folder of its own: they differ in their settings.
			line = fmt.Sprintf("mkdir -p example%d-%d; %s --provider mock --output example%d-%d/results.jsonl", len(args), i, line, len(args), i)
		}
		exits(ts, false, []string{"0", "sh", "-c", line})
	}
}

// section is the lines of a part of a help text.
func section(help, title string) (lines []string) {
	_, text, _ := strings.Cut(help, "\n"+title+"\n")
	text, _, _ = strings.Cut(text, "\n\n")
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

var figure = regexp.MustCompile(`\d[\d,.:-]*(?:[mh]\d+)*(?:ms|[smh]\b)?`)

// shown COMMAND FILE wants a file, of stdout or of stderr say, to be what the
// README shows below the commands of which COMMAND is one, but for the figures.
// A run that a slow machine drew out also says what bound it.
func shown(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "shown command file")
	_, below, found := strings.Cut(ts.ReadFile(ts.Getenv("DATA")+"/../README.md"), "\n"+args[0]+"\n")
	_, below, block := strings.Cut(below, "\n```text\n")
	if !found || !block {
		ts.Fatalf("the README does not show what %s prints", args[0])
	}
	text, _, _ := strings.Cut(below, "```")
	var want strings.Builder
	for line := range strings.Lines(figure.ReplaceAllString(text, "N")) {
		if line == "…\n" {
			want.WriteString(`(?:.*\n)*`)
		} else {
			want.WriteString(regexp.QuoteMeta(line))
		}
	}
	got := figure.ReplaceAllString(ts.ReadFile(args[1]), "N")
	if !strings.Contains(text, "\nbound by ") {
		got = regexp.MustCompile("(?m)^bound by .*\n").ReplaceAllString(got, "")
	}
	if !regexp.MustCompile("^" + want.String() + "$").MatchString(got) {
		ts.Fatalf("got\n%s\nwant, as the README has it,\n%s", got, text)
	}
}
