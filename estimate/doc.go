// Package estimate reckons, before anything is sent, what a request costs in
// tokens and how long a batch must take at least.
//
// Counts of text are exact: for o200k_base, cl100k_base, p50k_base and
// r50k_base they equal those of OpenAI's tiktoken, with the text of special
// tokens ("<|endoftext|>") counted as ordinary text. The definitions of the
// encodings come from tiktoken-go, which is also the reference of the tests;
// the counting itself is this package's own (a hand-written splitter and a
// merge that stays near-linear on unbroken runs), because tiktoken-go's takes
// time quadratic in the length of a run.
//
// What a provider adds around the text (framing of chat messages, tool
// definitions, images) is not published in full. Each formula names its source
// where it is written.
package estimate
