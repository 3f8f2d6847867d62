package cmd

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// signals ends the context at the first SIGINT, SIGTERM or SIGHUP (a lost
// terminal) and the process at the second that is one of its own. Everything
// that matters is durable by then. A signal that the parent told us to ignore
// (nohup, a job in the background) stays ignored.
func signals(env Env) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	got := make(chan os.Signal, 2)
	var listen []os.Signal
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			listen = append(listen, s)
		}
	}
	if len(listen) > 0 {
		signal.Notify(got, listen...)
	}
	// A reader of standard output that goes away is an error of the write, so
	// that the run can stop in order.
	signal.Ignore(syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		var asked stops
		for {
			select {
			case s := <-got:
				sig, _ := s.(syscall.Signal)
				if asked.again(time.Now()) {
					if env.draws() {
						fmt.Fprint(env.Stderr, eraseLine) // a bar may stand there
					}
					env.say("left at once; run the same command again to go on")
					os.Exit(exitInterrupt + int(sig))
				}
				cancel(withSignal{int(sig)})
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(got)
		close(done)
		cancel(nil)
	}
}

// oneStop is how far apart the signals of one stop come: timeout(1) sends its
// signal to the process and to its group, a terminal that closes sends one and
// its shell another, and systemd can send SIGHUP right after SIGTERM. Nobody
// presses a key twice as fast.
const oneStop = 200 * time.Millisecond

// stops tells a second request to stop from an echo of the first. The zero value
// has seen none.
type stops struct{ first time.Time }

// again notes a signal and reports that it asks once more.
func (s *stops) again(now time.Time) bool {
	if s.first.IsZero() {
		s.first = now
		return false
	}
	return now.Sub(s.first) >= oneStop
}
