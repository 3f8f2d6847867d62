// Package loop is what people write in place of a batch runner: goroutines that
// take prompts off a channel and call. It keeps no records, and ends at the first
// failure.
package loop

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"
)

// Workers is how many goroutines call at the same time.
const Workers = 100

// Run makes a call for each line of a file of plain prompts, at an even pace of so
// many a second, or as fast as they come if that is 0.
func Run(path string, rate int, call func(prompt string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	prompts := make(chan string, Workers)
	failures := make(chan error, Workers)
	var all sync.WaitGroup
	for range Workers {
		all.Go(func() {
			for p := range prompts {
				if err := call(p); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	var pace <-chan time.Time
	if rate > 0 {
		ticker := time.NewTicker(time.Second / time.Duration(rate))
		defer ticker.Stop()
		pace = ticker.C
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() && err == nil {
		var line struct{ Prompt string }
		if err = json.Unmarshal(lines.Bytes(), &line); err != nil {
			break
		}
		if rate > 0 {
			<-pace
		}
		select {
		case prompts <- line.Prompt:
		case err = <-failures:
		}
	}
	close(prompts)
	all.Wait()
	close(failures)
	return errors.Join(err, lines.Err(), <-failures)
}
