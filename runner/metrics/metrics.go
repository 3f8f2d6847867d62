// Package metrics turns what happens in a run into Prometheus metrics. It
// observes; the run does not know it.
package metrics

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/route"
)

// Metrics are those of one run. Observe is for one goroutine; the rest is safe
// for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	names    names

	requests, unsent, reserved, used, retries, hits     *prometheus.CounterVec
	fallbacks, duplicates, kept, lookups, cost, unknown *prometheus.CounterVec
	operations, dead, degraded                          *prometheus.CounterVec
	pressure                                            *prometheus.GaugeVec
	depth, inFlight, limit, limitUsed                   *prometheus.GaugeVec
	wait, latency                                       *prometheus.HistogramVec
}

// Buckets in seconds: a call may wait for a second or for the next day, and
// take from milliseconds to the 15 minutes of the default timeout.
var (
	waitBuckets    = []float64{0.01, 0.1, 0.5, 1, 5, 15, 30, 60, 120, 300, 900, 3600, 21600}
	latencyBuckets = []float64{0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600, 900}
)

// New makes the metrics of a run. Labels take their values from its targets
// and tasks.
func New(c *runner.Config) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), names: newNames(c)}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(v)
		return v
	}
	m.requests = counter("llm_requests_total", "Requests that were sent, by how they ended: ok, or the class of the failure.", "provider", "model", "status")
	m.unsent = counter("llm_requests_unsent_total", "Calls of which no byte left: no connection, no descriptor.", "provider", "model", "error_type")
	m.reserved = counter("llm_tokens_reserved_total", "Tokens that calls took from the token limit.", "provider", "model")
	m.used = counter("llm_tokens_used_total", "Tokens of prompts and outputs, as answers state them.", "provider", "model")
	m.retries = counter("llm_retries_total", "Calls made again, by the attempt before.", "provider", "model", "error_type")
	m.hits = counter("llm_rate_limit_hits_total", "Requests that a rate limit refused.", "provider", "model", "limit_type")
	m.fallbacks = counter("llm_fallbacks_total", "Operations that went to another target.", "from_provider", "to_provider", "reason")
	m.duplicates = counter("llm_duplicate_suppressed_total", "Operations served by the answer to an identical request.", "task_type")
	m.kept = counter("llm_cache_hits_total", "Operations served by an answer that an earlier run kept, without a call.", "provider", "model")
	m.lookups = counter("llm_lookups_total", "Questions for answers that were lost, by what was found: found, running, ended, gone, failed.", "provider", "model", "result")
	m.cost = counter("llm_cost_total", "Cost of calls, in the unit of the prices; calls that may have been billed count in full.", "provider", "model")
	m.unknown = counter("llm_unknown_outcomes_total", "Calls without a whole answer that may have been billed.", "provider", "model")
	m.operations = counter("llm_operations_total", "Operations that need nothing more: completed, dead_letter, held.", "status")
	for _, end := range []runner.Transition{runner.Completed, runner.DeadLettered, runner.Held} {
		m.operations.WithLabelValues(end.String()) // from 0 on, as begin has it
	}
	m.dead = counter("llm_dead_letters_total", "Operations that ended without an answer, by class.", "provider", "model", "error_type")
	m.degraded = counter("llm_degraded_total", "Results that gave something up under pressure, by what: max_tokens, trim, smaller_model, cached_answer, fixed_answer; one may count several times.", "action")
	m.pressure = gauge("llm_pressure", "1 for the level of pressure that the run is at, 0 for the others.", "level")
	for level := route.None; level <= route.Severe; level++ {
		m.pressure.WithLabelValues(level.String()).Set(0)
	}
	m.pressure.WithLabelValues(route.None.String()).Set(1)
	m.depth = gauge("llm_queue_depth", "Operations in the queue, delayed ones included; the input is read ahead of it by a few thousand.", "priority", "task_type")
	m.inFlight = gauge("llm_in_flight", "Calls granted and not yet answered.", "provider", "model")
	m.limit = gauge("llm_limit", "Limits in force: rpm, tpm, itpm, otpm, rpd, tpd, concurrency; the first target of a limit group stands for it.", "provider", "model", "limit")
	m.limitUsed = gauge("llm_limit_used", "What counts against a limit now.", "provider", "model", "limit")
	m.wait = histogram("llm_queue_wait_seconds", "Time from when an operation could go until it was granted.", waitBuckets, "priority", "task_type")
	m.latency = histogram("llm_request_duration_seconds", "Time from the writing of a request to its end.", latencyBuckets, "provider", "model")
	return m
}

// Observe takes one event; it is meant for runner.Config.Observe.
func (m *Metrics) Observe(e runner.Event) {
	n := &m.names
	provider, model := n.providers.of(e.Provider), n.models.of(e.Model)
	task, priority := n.tasks.of(e.Task), e.Priority.String()
	switch e.What {
	case runner.Queued:
		m.depth.WithLabelValues(priority, task).Inc()
	case runner.Left, runner.Fixed:
		m.depth.WithLabelValues(priority, task).Dec()
	case runner.Granted:
		m.depth.WithLabelValues(priority, task).Dec()
		m.wait.WithLabelValues(priority, task).Observe(e.Wait.Seconds())
		m.inFlight.WithLabelValues(provider, model).Inc()
		m.begin(provider, model)
	case runner.Sent:
		m.reserved.WithLabelValues(provider, model).Add(float64(e.Reserved))
	case runner.Retried:
		m.retries.WithLabelValues(provider, model, class(e.Class)).Inc()
	case runner.Answered, runner.Failed:
		m.ended(e, provider, model)
	case runner.Refused:
		m.hits.WithLabelValues(provider, model, limitType(e.Limit)).Inc()
	case runner.FellBack:
		m.fallbacks.WithLabelValues(n.providers.of(e.FromProvider), provider, e.Reason).Inc()
	case runner.Completed, runner.Held:
		m.operations.WithLabelValues(e.What.String()).Inc()
		for _, what := range e.Degraded {
			name, _, _ := strings.Cut(what, ":")
			m.degraded.WithLabelValues(name).Inc()
		}
	case runner.Pressed:
		for level := route.None; level <= route.Severe; level++ {
			m.pressure.WithLabelValues(level.String()).Set(0)
		}
		m.pressure.WithLabelValues(e.Level.String()).Set(1)
	case runner.DeadLettered:
		m.operations.WithLabelValues(e.What.String()).Inc()
		m.dead.WithLabelValues(provider, model, class(e.Class)).Inc()
	case runner.Suppressed:
		m.duplicates.WithLabelValues(task).Inc()
	case runner.CacheHit:
		m.kept.WithLabelValues(provider, model).Inc()
	case runner.LookedUp:
		m.lookups.WithLabelValues(provider, model, e.Reason).Inc()
	case runner.Measured:
		m.limit.WithLabelValues(provider, model, e.Limit).Set(float64(e.Max))
		m.limitUsed.WithLabelValues(provider, model, e.Limit).Set(float64(e.Used))
	default: // what it does not know of
	}
}

// begin makes counters start at 0: who scrapes them would miss the first step of
// one that appears with it.
func (m *Metrics) begin(provider, model string) {
	m.requests.WithLabelValues(provider, model, "ok")
	m.reserved.WithLabelValues(provider, model)
	m.used.WithLabelValues(provider, model)
	m.unknown.WithLabelValues(provider, model)
}

// ended counts a call that is over.
func (m *Metrics) ended(e runner.Event, provider, model string) {
	m.inFlight.WithLabelValues(provider, model).Dec()
	status := "ok"
	if e.What == runner.Failed {
		status = class(e.Class)
	}
	if e.Unsent {
		m.unsent.WithLabelValues(provider, model, status).Inc()
		return
	}
	m.requests.WithLabelValues(provider, model, status).Inc()
	m.latency.WithLabelValues(provider, model).Observe(e.Latency.Seconds())
	m.used.WithLabelValues(provider, model).Add(float64(e.Used))
	if e.Cost > 0 { // it is 0 without a price, too
		m.cost.WithLabelValues(provider, model).Add(e.Cost.Units())
	}
	if e.Unknown {
		m.unknown.WithLabelValues(provider, model).Inc()
	}
}

// Handler answers scrapes.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// WriteFile writes the metrics for a textfile collector: whole or not at all,
// by way of a file beside it. It is readable by all, since a collector has an
// account of its own and metrics hold nothing secret.
func (m *Metrics) WriteFile(path string) error {
	return prometheus.WriteToTextfile(path, m.registry)
}

// IsMetricsFile says that a file may be replaced by metrics: it is empty or
// starts as they do.
func IsMetricsFile(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := make([]byte, len("# HELP llm_"))
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	return n == 0 || string(head[:n]) == "# HELP llm_", nil
}
