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
)

// Workers is how many goroutines call at the same time.
const Workers = 100

// Run makes a call for each line of a file of plain prompts.
func Run(path string, call func(prompt string) error) error {
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
	lines := bufio.NewScanner(f)
	for lines.Scan() && err == nil {
		var line struct{ Prompt string }
		if err = json.Unmarshal(lines.Bytes(), &line); err != nil {
			break
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
