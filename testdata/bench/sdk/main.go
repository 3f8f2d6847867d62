// Command sdk is a peer: OpenAI's official SDK with its default client in a loop
// of goroutines. It is a program of its own because the SDK takes a minute to
// compile.
//
//	sdk BASE-URL FILE
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/llmbatch/llmbatch/testdata/bench/loop"
)

func main() {
	client := openai.NewClient(option.WithBaseURL(os.Args[1]), option.WithAPIKey("sk-bench"))
	err := loop.Run(os.Args[2], 0, func(prompt string) error {
		answer, err := client.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{
			Model: "gpt-4o-mini", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
		})
		if err == nil && answer.Choices[0].Message.Content == "" {
			err = errors.New("empty answer")
		}
		return err
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "sdk:", err)
		os.Exit(1)
	}
}
