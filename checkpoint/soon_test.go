package checkpoint

import (
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
		if err := s.PutSoon(testOperation(1)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != linger {
			t.Errorf("alone it took %v, want %v", took, linger)
		}
		time.Sleep(time.Second)
		began = time.Now()
		soon := make(chan error)
		go func() { soon <- s.PutSoon(testOperation(2)) }()
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
