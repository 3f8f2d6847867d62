// Package result reads and writes the two files that a run leaves: the output and the errors file. Each holds one JSON
// line per finished operation: the line of an OpenAI batch output file plus an object "llmbatch".
//
// # What is durable when
//
// Append returns when its line is on disk; one sync serves all callers that wait. A file can therefore end in whole
// lines that nobody was told of, and in one torn line. Open cuts or completes a torn line; Tail hands out the whole lines
// behind a given offset, which the runner adopts, because they are paid for.
//
// A line carries all that a lost checkpoint is rebuilt from (see Meta).
package result
