package main

import (
	"context"

	"github.com/llmbatch/llmbatch/testdata/harness"
)

// scene is a case's folder with an input, and the mock that runs of it ask.
type scene struct {
	bench *bench
	dir   string
	ids   []string
	mock  *harness.Mock
	url   string // that runs ask: the mock's, or that of something before it
}

// input makes a scene's folder, with x.jsonl of a line for each length (in words).
func (b *bench) input(name string, lengths []int, maxTokens int) (s *scene, err error) {
	s = &scene{bench: b}
	if s.dir, err = b.folder(name); err == nil {
		s.ids, err = write(s.dir, lengths, maxTokens)
	}
	return s, err
}

// serve starts the scene's mock; the caller kills it.
func (s *scene) serve(ctx context.Context, flags ...string) (err error) {
	if s.mock, err = s.bench.mock(ctx, s.dir, flags...); err == nil {
		s.url = s.mock.URL()
	}
	return err
}

// scene is input and serve.
func (b *bench) scene(ctx context.Context, name string, lengths []int, maxTokens int, flags ...string) (*scene, error) {
	s, err := b.input(name, lengths, maxTokens)
	if err == nil {
		err = s.serve(ctx, flags...)
	}
	return s, err
}

// command is that of a run of the scene's input.
func (s *scene) command(more ...string) []string {
	return append([]string{"run", "x.jsonl", "--base-url", s.url, "--json"}, more...)
}

// start starts such a run.
func (s *scene) start(ctx context.Context, more ...string) (*harness.Process, error) {
	return s.bench.spawn(ctx, s.dir, nil, s.command(more...)...)
}

// run runs the input to its end.
func (s *scene) run(ctx context.Context, more ...string) (outcome, error) {
	return s.finish(ctx, s.command(more...)...)
}

// finish runs another command to its end.
func (s *scene) finish(ctx context.Context, args ...string) (outcome, error) {
	p, err := s.bench.run(ctx, s.dir, args...)
	if err != nil {
		return outcome{}, err
	}
	return s.ended(ctx, p)
}

// ended waits for a run and gives what it left.
func (s *scene) ended(ctx context.Context, p *harness.Process) (o outcome, err error) {
	o = outcome{ids: s.ids, dir: s.dir}
	if o.report, err = p.Report(); err == nil {
		o.ledger, err = s.mock.Ledger(ctx)
	}
	return o, err
}
