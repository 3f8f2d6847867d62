package cmd

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/metrics"
)

// observeOptions are the flags for what watches a run without a terminal.
type observeOptions struct {
	metricsAddr, metricsFile     string
	linger                       time.Duration
	logFile, logFormat, logLevel string
}

func (o *observeOptions) flags(fl *pflag.FlagSet) {
	fl.StringVar(&o.metricsAddr, "metrics-addr", "", "serve Prometheus metrics at /metrics of this `address` while the run lasts; without a host, on the loopback")
	fl.DurationVar(&o.linger, "metrics-linger", 0, "after the end go on serving --metrics-addr until a last scrape, at most this `time`")
	fl.StringVar(&o.metricsFile, "metrics-file", "", "`file` that gets the metrics every few seconds and at the end, for a textfile collector")
	fl.StringVar(&o.logFile, "log-file", "", "append what happens to each operation to this `file`: IDs and figures, no prompts")
	fl.StringVar(&o.logFormat, "log-format", "text", "of --log-file: `text|json`")
	fl.StringVar(&o.logLevel, "log-level", "info", "least level in --log-file: `debug|info|warn|error`")
}

// metricsEvery is how often the file of metrics is written.
const metricsEvery = 5 * time.Second

// observers watch one run.
type observers struct {
	notice  func(string)
	metrics *metrics.Metrics // nil = not asked for
	file    string           // of metrics; "" = none
	scrapes *scrapes         // nil = none
	log     *eventLog        // nil = none
	stop    chan struct{}
	running sync.WaitGroup
}

// open starts what the flags ask for and lets it observe the run. Whatever
// cannot work shows now, ahead of the first call; stop ends the run for what
// fails later.
func (o *observeOptions) open(cfg *runner.Config, stop func(error)) (w *observers, err error) {
	w = &observers{notice: cfg.Notice, stop: make(chan struct{})}
	defer func() {
		if err != nil {
			w.scrapes.leave(context.Background(), 0)
			err = errors.Join(err, w.end())
		}
	}()
	if o.metricsAddr != "" || o.metricsFile != "" {
		w.metrics = metrics.New(cfg)
	}
	if o.metricsAddr != "" {
		w.scrapes, err = serve(o.metricsAddr, w.metrics, w.notice)
	}
	if err == nil && o.metricsFile != "" {
		err = w.keepFile(o.metricsFile)
	}
	if err == nil {
		w.log, err = o.openLog(func(err error) {
			w.notice("stopping: " + err.Error())
			stop(err)
		})
	}
	if err == nil {
		w.log.started(cfg.Paths)
		cfg.Observe = w.observe()
	}
	return w, err
}

// check refuses flags that do nothing, and files that something else is in.
func (o *observeOptions) check(paths runner.Paths) error {
	switch {
	case o.linger < 0:
		return usagef("", "--metrics-linger %s: want 0 or more", o.linger)
	case o.linger > 0 && o.metricsAddr == "":
		return usagef("", "--metrics-linger needs --metrics-addr")
	case o.logFormat != "text" && o.logFormat != "json":
		return usagef("", "--log-format %q: want text or json", o.logFormat)
	case o.logFile == "" && (o.logFormat != "text" || o.logLevel != "info"):
		return usagef("", "--log-format and --log-level need --log-file")
	}
	if _, err := o.level(); err != nil {
		return err
	}
	files := []runner.FileOf{{What: "--metrics-file", Path: o.metricsFile}, {What: "--log-file", Path: o.logFile}}
	for _, f := range files {
		fi, err := os.Stat(f.Path)
		switch {
		case f.Path == "":
		case err == nil && !fi.Mode().IsRegular():
			return usagef("", "%s %s is no regular file", f.What, f.Path)
		case err != nil || f.Path == o.metricsFile: // which is made anew each time
			if err := runner.CheckFolder(f); err != nil {
				return err
			}
		}
	}
	return paths.CheckOthers(files...)
}

// level is the least that the log holds.
func (o *observeOptions) level() (l slog.Level, err error) {
	if err := l.UnmarshalText([]byte(o.logLevel)); err != nil {
		return l, usagef("", "--log-level %q: want debug, info, warn or error", o.logLevel)
	}
	return l, nil
}

// observe is what the run tells its events; nil if nobody listens.
func (w *observers) observe() func(runner.Event) {
	switch {
	case w.metrics == nil && w.log == nil:
		return nil
	case w.log == nil:
		return w.metrics.Observe
	case w.metrics == nil:
		return w.log.observe
	default:
		return func(e runner.Event) {
			w.metrics.Observe(e)
			w.log.observe(e)
		}
	}
}

// keepFile writes the metrics to a file until the end.
func (w *observers) keepFile(path string) error {
	if ours, err := metrics.IsMetricsFile(path); err == nil && !ours {
		return usagef("name a new file, or remove this one", "--metrics-file %s holds something else than metrics", path)
	}
	if err := w.metrics.WriteFile(path); err != nil {
		return usagef("", "--metrics-file: %s", err)
	}
	w.file = path
	w.running.Go(func() {
		tick := time.NewTicker(metricsEvery)
		defer tick.Stop()
		told := false
		for {
			select {
			case <-w.stop:
				return
			case <-tick.C:
			}
			if err := w.metrics.WriteFile(path); err != nil && !told {
				told = true
				w.notice("metrics are not written: " + err.Error())
			}
		}
	})
	return nil
}

// close tells how the run ended and ends the observers.
func (w *observers) close(sum *runner.Summary, err error) error {
	w.log.ended(sum, err)
	w.scrapes.finish()
	return w.end()
}

// end leaves the run's last figures in the file.
func (w *observers) end() error {
	close(w.stop)
	w.running.Wait()
	if w.file != "" {
		if err := w.metrics.WriteFile(w.file); err != nil {
			w.notice("the last metrics are not written: " + err.Error())
		}
	}
	return w.log.close()
}
