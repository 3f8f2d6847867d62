package runner

import (
	"io"
	"time"

	"github.com/llmbatch/llmbatch/estimate"
	"github.com/llmbatch/llmbatch/runner/input"
	"github.com/llmbatch/llmbatch/runner/money"
	"github.com/llmbatch/llmbatch/runner/retry"
	"github.com/llmbatch/llmbatch/runner/route"
)

// Config is everything that one run needs. Durations are wall time; a zero
// value means what its field says.
type Config struct {
	Input    *input.File
	Settings *input.Settings
	Paths    Paths

	// Where the calls go, and how they are paced. Without Routes, every line
	// goes to the first target.
	Targets []Target
	Routes  *Routes
	// ForModel gives the target of one model at a target that leaves lines their
	// own; nil = it differs in nothing.
	ForModel func(target int, model string) Target
	Learned  bool // reserve what outputs turn out to take, also under a cap
	Counter  *estimate.Counter
	Stream   bool // stream each call inside and store the whole answer

	// What gives way under pressure; nil = nothing does.
	Degradation *route.Degradation

	// What failures lead to.
	Policy retry.Policy

	// What is to be done.
	Limit       int // only the first Limit operations; 0 = all
	Dedupe      bool
	Cache       string // folder of answers that runs share; "" = none are kept
	SkipInvalid bool
	Restart     bool     // move the files of earlier runs aside first
	RetryFailed []string // classes of dead letters to put back; "all" = each
	Changed     OnChanged
	MaxCost     money.Amount  // 0 = no bound
	Deadline    time.Duration // stop sending after so long; 0 = never
	Grace       time.Duration // for calls in flight at the first signal
	KeepNative  bool          // store the provider's own body beside a translated one

	// Sized is told how many lines the input has, before the first call; nil =
	// nobody asks.
	Sized func(lines int)
	// What it tells. Notice gets one line at a time, from any goroutine; Progress is called from
	// the dispatcher at most ten times a second and must not block.
	Notice   func(string)
	Progress func(Progress)
	// Observe gets every transition, from the dispatcher's goroutine alone, and
	// must not block; nil = nobody looks.
	Observe func(Event)
	Tee     io.Writer // gets each result line after its sync; nil = nobody

	given int               // of Targets; the others are of models that lines keep
	kept  map[keptModel]int // where those are
	whole bool              // those are all models of the input
}

// OnChanged says what happens to finished operations when a setting that
// changes requests differs from the checkpoint's.
type OnChanged uint8

// The ways to go on.
const (
	Refuse OnChanged = iota // stop before any call and show the difference
	Rerun                   // finished operations whose request changed run again
	Keep                    // finished operations stay as they are
)
