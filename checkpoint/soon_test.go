package checkpoint

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A row that nobody waits for goes with the next commit that another one
// causes, and alone when none comes.
func TestPutSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := create0(t, Options{})
		time.Sleep(time.Second) // no pause after an earlier commit is left
		commits, began := s.commits, time.Now()
		soon := make(chan error)
		s.PutSoon(testOperation(1), func(err error) { soon <- err })
		if err := <-soon; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != linger {
			t.Errorf("alone it took %v, want %v", took, linger)
		}
		time.Sleep(time.Second)
		began = time.Now()
		s.PutSoon(testOperation(2), func(err error) { soon <- err })
		synctest.Wait()
		if err := s.Put(testOperation(3)); err != nil {
			t.Fatal(err)
		}
		if err := <-soon; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("with another row it took %v, want none", took)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if got := s.commits - commits; got != 2 {
			t.Errorf("got %d commits, want 2", got)
		}
	})
}

// Two commits are 5 ms apart, unless there are rows enough to be worth one.
func TestGapBetweenCommits(t *testing.T) {
	for rows, want := range map[int]time.Duration{1: 5 * time.Millisecond, 63: 5 * time.Millisecond, 64: 0} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := create0(t, Options{})
			for range 2 {
				time.Sleep(time.Second)
				var first []*Operation // that they were many shortens no later gap
				for n := range many {
					first = append(first, testOperation(n))
				}
				if err := s.PutAll(first, nil); err != nil {
					t.Fatal(err)
				}
				began, told := time.Now(), make(chan error, rows)
				for n := range rows {
					s.PutThen(testOperation(n), func(err error) { told <- err })
				}
				for range rows {
					if err := <-told; err != nil {
						t.Fatal(err)
					}
				}
				if took := time.Since(began); took != want {
					t.Errorf("%d rows took %v, want %v", rows, took, want)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Each row that nobody waits for is told of once, when it is durable: those of one commit in their order, those of two
// commits in any. What the operation became after that does not disturb what was given.
func TestPutThen(t *testing.T) {
	s, path := create0(t, Options{})
	for round := range 3 {
		told := make(chan int, 2000) // with room for what is told twice
		for n := range 1000 {
			op := testOperation(n)
			op.Seq = uint64(min(round, 1) * (n + 1))
			op.Line = 10*n + round
			s.PutThen(op, func(err error) {
				if err != nil {
					t.Error(err)
				}
				told <- n
			})
			if op.Seq != uint64(n+1) {
				t.Fatalf("got number %d, want %d", op.Seq, n+1)
			}
			op.ID, op.Line = "changed after PutThen returned", -1
		}
		times := map[int]int{}
		for range 1000 {
			times[<-told]++
		}
		if len(times) != 1000 {
			t.Fatalf("told of %d rows, want each of 1000 once", len(times))
		}
	}
	s = reopen(t, s, path)
	n := 0
	err := s.All(func(op *Operation) error {
		if want := testOperation(n); op.ID != want.ID || op.Line != 10*n+2 {
			t.Fatalf("row %d is %s of line %d", op.Seq, op.ID, op.Line)
		}
		n++
		return nil
	})
	if err != nil || n != 1000 {
		t.Fatalf("%d rows, %v", n, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	op := testOperation(1)
	var got error
	s.PutThen(op, func(err error) { got = err })
	if !errors.Is(got, ErrClosed) || op.Seq != 0 {
		t.Errorf("after Close: %v, number %d, want ErrClosed and none", got, op.Seq)
	}
}

// One commit that fails is told to all its rows, and to those after it.
func TestPutThenTellsFailure(t *testing.T) {
	s, _ := create0(t, Options{})
	if err := s.db.Load().Close(); err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 100)
	for n := range 100 {
		s.PutThen(testOperation(n), func(err error) { told <- err })
	}
	for range 100 {
		if err := <-told; err == nil {
			t.Error("a row was called durable")
		}
	}
	s.PutThen(testOperation(1), func(err error) { told <- err })
	if err := <-told; !errors.Is(err, ErrFailed) {
		t.Errorf("later: %v, want ErrFailed", err)
	}
}
