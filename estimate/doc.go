// Package estimate reckons, before anything is sent, what a request costs in
// tokens and how long a batch must take at least.
//
// Counts of text are exact: for o200k_base, cl100k_base, p50k_base and
// r50k_base they equal those of OpenAI's tiktoken, with the text of special
// tokens ("<|endoftext|>") counted as ordinary text. The definitions of the
// encodings come from tiktoken-go, which is also the reference of the tests;
// the counting itself is this package's own, because tiktoken-go's takes time
// quadratic in the length of an unbroken run. A text goes through three steps:
//
//   - scan.go cuts it into pieces, as the encoding's regular expression would,
//     by the character classes of Unicode 16.0;
//   - cache.go answers for the pieces met before;
//   - merge.go merges the others by rank, from single bytes or from whole
//     characters where that is the same (units.go).
//
// What a provider adds around the text (framing of chat messages, tool
// definitions, images) is not published in full. Each formula names its source
// where it is written. Models whose tokenizer is not public are counted in
// o200k_base; Factor says how far they are from it.
//
// WindowBound and BucketBound are lower bounds of a batch's duration in closed
// form.
package estimate
