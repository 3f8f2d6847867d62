package cmd

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// signals ends the context at the first SIGINT, SIGTERM or SIGHUP (a lost
// terminal) and the process at
// the second. Everything that matters is durable by then. A signal that the
// parent told us to ignore (nohup, a job in the background) stays ignored.
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
		for n := 0; ; n++ {
			select {
			case s := <-got:
				sig, _ := s.(syscall.Signal)
				if n > 0 {
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
