// Package fake is the mock provider: an http.Handler that keeps request and token limits, answers as an
// OpenAI-compatible server does, plays faults by rate or as a prompt names them, and keeps a ledger of what it was asked,
// refused, answered and would have billed. Tests, the demo and benchmarks all use it: in-process through Transport (also
// under testing/synctest: it reads time.Now, waits with timers that end with the request's context and starts no
// goroutine but a streamed answer's) or on a listener through Serve.
//
// The ledger is the server's own account. It takes nothing from the client but the Idempotency-Key, and what was billed
// twice is counted by the request's body as well, so that a client that changes keys is found out. It is written before the
// first byte of an answer: a client that has its answer finds it in GET /stats.
//
// Flags that a command needs, by Config field:
//
//	--addr 127.0.0.1:0                      the listener (print the base URL and /stats once it listens)
//	--rpm --tpm --rpd --tpd --max-in-flight RPM TPM RPD TPD Concurrency
//	--window bucket|fixed|sliding|slices    Window (ParseWindow)
//	--window-length 60s --slice 1s          WindowLength Slice
//	--burst --phase --fixed-at-first        Burst Phase FixedAtFirst
//	--accounting sum|max|input|none         Accounting (ParseAccounting)
//	--default-output --refund --count-refused
//	--headers openai|anthropic|openrouter|retry-after|none    Style (ParseStyle)
//	--latency --jitter --latency-sigma --refuse-delay
//	--output-tokens --output-jitter --echo --seed --dimensions
//	--error-rate --error-status --lost-rate
//	--idempotency                           HonourKeys
//	--api-key-env NAME --models a,b         APIKey Models
//	--quota-after --down-from --down-until --down-status
//	--count chars|tiktoken                  Count: nil or the estimate's counter
//	--log-max                               LogMax
//	--stats-file F                          write Stats as JSON when it stops
package fake
