// Command llmbatch pushes a JSONL file of prompts through an LLM API, as fast
// as the account's limits allow, and resumes after any stop.
package main

import (
	"os"

	"github.com/llmbatch/llmbatch/cmd"
)

func main() { os.Exit(cmd.Main(cmd.OSEnv())) }
