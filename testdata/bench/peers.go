package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/llmbatch/llmbatch/testdata/bench/loop"
)

// children are what this program runs of itself in processes of their own.
var children = map[string]func(args []string) error{
	"serve": serve, "net-http": httpLoop, "preflight": preflight, "count": countLoop,
}

// httpLoop is the least that can be done with the standard library, with as many
// idle connections as workers. args are the base URL, the input, and how many
// calls a second it makes, 0 for as many as it can.
func httpLoop(args []string) error {
	rate, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.MaxIdleConns = loop.Workers, 0
	client := &http.Client{Transport: transport}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	return loop.Run(args[1], rate, func(prompt string) error {
		body, err := json.Marshal(map[string]any{"model": "gpt-4o-mini", "messages": []message{{"user", prompt}}})
		if err != nil {
			return err
		}
		request, err := http.NewRequest(http.MethodPost, args[0]+"/chat/completions", bytes.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer sk-bench")
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		raw, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		var answer struct{ Choices []struct{ Message message } }
		if err := json.Unmarshal(raw, &answer); err != nil {
			return err
		}
		if len(answer.Choices) == 0 {
			return fmt.Errorf("status %d: %.200s", response.StatusCode, raw)
		}
		return nil
	})
}
