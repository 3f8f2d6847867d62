package cmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/runner"
)

// eventLog writes what happens to operations. Its lines hold IDs, names of the
// config and figures: what events have, and events have no text. A nil eventLog
// does nothing.
type eventLog struct {
	file    *os.File
	handler slog.Handler
	stop    func(error) // ends the run when a line cannot be written
	err     error       // why; nothing is written after it
}

// openLog opens the log that the flags name, if they do.
func (o *observeOptions) openLog(stop func(error)) (*eventLog, error) {
	level, err := o.level()
	if o.logFile == "" || err != nil {
		return nil, err
	}
	f, err := os.OpenFile(o.logFile, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, usagef("", "--log-file: %s", err)
	}
	head := make([]byte, len(`{"time":`))
	n, err := f.ReadAt(head, 0)
	if n > 0 && !bytes.HasPrefix(head, []byte("time=")) && string(head) != `{"time":` {
		return nil, errors.Join(usagef("name a new file, or remove this one", "--log-file %s holds something else than a log", o.logFile), f.Close())
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = f.Chmod(0o600)
	}
	if err != nil {
		return nil, errors.Join(usagef("", "--log-file: %s", err), f.Close())
	}
	l := &eventLog{file: f, stop: stop}
	opts := &slog.HandlerOptions{Level: level}
	if l.handler = slog.Handler(slog.NewTextHandler(f, opts)); o.logFormat == "json" {
		l.handler = slog.NewJSONHandler(f, opts)
	}
	return l, nil
}

// levels of the transitions; those that are missing are not logged.
var levels = map[runner.Transition]slog.Level{
	runner.Granted: slog.LevelDebug, runner.Sent: slog.LevelDebug, runner.Answered: slog.LevelDebug,
	runner.Completed: slog.LevelInfo, runner.Suppressed: slog.LevelInfo, runner.CacheHit: slog.LevelInfo, runner.LookedUp: slog.LevelInfo, runner.Retried: slog.LevelInfo, runner.Left: slog.LevelInfo,
	runner.Failed: slog.LevelWarn, runner.Refused: slog.LevelWarn, runner.FellBack: slog.LevelWarn, runner.Held: slog.LevelWarn,
	runner.DeadLettered: slog.LevelError, runner.Fixed: slog.LevelWarn, runner.Pressed: slog.LevelWarn,
}

// observe writes one event, for runner.Config.Observe.
func (l *eventLog) observe(e runner.Event) {
	level, logged := levels[e.What]
	if !logged || !l.handler.Enabled(context.Background(), level) {
		return
	}
	r := slog.NewRecord(e.At, level, e.What.String(), 0)
	text := func(key, value string) {
		if value != "" {
			r.AddAttrs(slog.String(key, clip(value)))
		}
	}
	number := func(key string, n int64) {
		if n != 0 {
			r.AddAttrs(slog.Int64(key, n))
		}
	}
	if e.What == runner.Pressed {
		text("level", e.Level.String())
		text("reason", e.Reason)
		l.write(r)
		return
	}
	text("op", e.Op)
	number("line", int64(e.Line))
	number("attempt", int64(e.Attempt))
	text("provider", e.Provider)
	text("model", e.Model)
	text("task", e.Task)
	r.AddAttrs(slog.String("priority", e.Priority.String()))
	text("class", e.Class)
	text("limit", e.Limit)
	number("status_code", int64(e.StatusCode))
	text("request_id", e.RequestID)
	text("from_provider", e.FromProvider)
	text("from_model", e.FromModel)
	text("reason", e.Reason)
	text("degraded", strings.Join(e.Degraded, " "))
	number("tokens_reserved", e.Reserved)
	number("tokens_used", e.Used)
	number("wait_ms", e.Wait.Milliseconds())
	number("latency_ms", e.Latency.Milliseconds())
	if e.Unknown {
		r.AddAttrs(slog.Bool("outcome_unknown", true))
	}
	l.write(r)
}

// started and ended frame the run.
func (l *eventLog) started(p runner.Paths) {
	if l == nil {
		return
	}
	r := slog.NewRecord(time.Now(), slog.LevelInfo, "run_started", 0)
	r.AddAttrs(slog.String("version", build().Version), slog.String("input", p.Input), slog.String("output", p.Output), slog.String("checkpoint", p.Checkpoint))
	l.write(r)
}

func (l *eventLog) ended(s *runner.Summary, err error) {
	if l == nil {
		return
	}
	r := slog.NewRecord(time.Now(), slog.LevelInfo, "run_ended", 0)
	if s != nil {
		r.AddAttrs(slog.Int64("completed", int64(s.Completed)), slog.Int64("failed", int64(s.Failed)), slog.Int64("pending", int64(s.Pending)),
			slog.Int64("unknown", int64(s.Unknown)), slog.Int64("calls", s.Calls), slog.Int64("retries", s.Retries), slog.Int64("rate_limited", s.RateLimited),
			slog.Float64("seconds", s.Seconds))
		if s.Stop != nil {
			r.AddAttrs(slog.Bool("stopped", true), slog.String("class", s.Stop.Class))
		}
	}
	if err != nil {
		r.Level = slog.LevelError // what it says is on stderr: it may quote the input
	}
	l.write(r)
}

// write stops the run if it fails: who asked for a log wants a whole one.
func (l *eventLog) write(r slog.Record) {
	ctx := context.Background()
	if l.err != nil || !l.handler.Enabled(ctx, r.Level) {
		return
	}
	if err := l.handler.Handle(ctx, r); err != nil {
		l.err = fmt.Errorf("log: %w", err)
		l.stop(l.err)
	}
}

// close gives the first error of the log.
func (l *eventLog) close() error {
	if l == nil {
		return nil
	}
	return cmp.Or(l.err, l.file.Close())
}

// maxLogged is the longest text of one attribute, in bytes: an ID may be a
// megabyte.
const maxLogged = 200

func clip(s string) string {
	if len(s) <= maxLogged {
		return s
	}
	return strings.ToValidUTF8(s[:maxLogged], "") + "..."
}
