// Command llmbatch pushes a JSONL file of prompts through an LLM API.
package main

func main() {}
