// Package input reads the lines of a batch: it opens the file (plain, gzip, zstd or a stream), checks all of it before the first call,
// and gives each line back as the request that is to be sent.
//
// A line is one of four shapes, told apart by the names of its top-level fields (which are case-sensitive):
//
//   - with --template every object is Plain, whatever its fields, but for complete lines of a batch file; with --prompt-field every
//     object that has the named member is;
//   - url or method with body, and neither prompt nor messages: Batch;
//   - params, and none of prompt, messages and input: AnthropicBatch;
//   - model with messages or input, and none of id, custom_id, system and prompt: Raw;
//   - one of prompt, messages and input: Plain.
//
// Callers' bytes are never decoded and encoded again. The body of a Batch line, the params of an AnthropicBatch line and a Raw line are
// sent as they stand; only the value of model is replaced where --override-model or a route asks for it, or put first where there is none.
// From a Raw line the members that llmbatch reads itself (task, tenant, priority, retry and the one named by --id-field) are left out;
// its metadata is both sent and echoed.
//
// The body of a Plain line is built in a fixed order: model, messages (or input), output cap, temperature, top_p, stop, seed,
// response_format, tools, reasoning_effort, and then the members of --extra-body that are not there yet: the line wins over the flags.
// Values are copied from the line as they are written. A null setting counts as left out; 0 does not.
package input

import (
	"encoding/json"
	"text/template"
)

// Shape says which of the four forms a line has.
type Shape uint8

// The shapes.
const (
	Plain          Shape = iota // prompt, messages or input, and settings
	Batch                       // a line of OpenAI's batch file
	AnthropicBatch              // a line of Anthropic's batch file
	Raw                         // a request body
)

// String is the shape's name as notices use it.
func (s Shape) String() string {
	return [...]string{"plain", "batch", "anthropic batch", "raw"}[s&3]
}

// Priority orders operations that are ready. The zero value is Normal.
type Priority uint8

// The priorities.
const (
	Normal Priority = iota
	High
	Low
)

// String is the priority as a line writes it.
func (p Priority) String() string {
	return [...]string{"normal", "high", "low", "normal"}[p&3]
}

// DefaultMaxLineBytes is the longest line that is read when Settings.MaxLineBytes is 0.
const DefaultMaxLineBytes = 64 << 20

// Settings is what the flags give for lines that leave it open; all of it but MaxLineBytes, Anthropic and IDField is part of requests'
// bytes. The zero value adds nothing. Not to be changed once Preflight has seen it; safe for concurrent use from then on.
type Settings struct {
	Model         string          // for lines that name no model
	OverrideModel string          // for all lines, whatever they name
	System        string          // system message of plain chat lines that have none; "" = none
	PromptField   string          // member that holds the prompt of lines that have it, whatever else they have; "" = none
	IDField       string          // member that holds the ID, before custom_id and id; "" = none
	Template      string          // text/template over the line's members that makes the prompt of any line but a batch one; "" = none
	ExtraBody     json.RawMessage // object whose members are added to the bodies of plain lines
	MaxTokens     int             // output cap of plain chat lines without one; 0 = add nothing
	Temperature   string          // number as written, for plain chat lines without one; "" = add nothing

	// TaskModel is the model for lines of a task that name none where Model is none; nil, or "" = there is none. "" is lines without a task.
	TaskModel func(task string) string
	// OutputCap names the output cap's member for a model on chat completions; nil = max_tokens.
	OutputCap func(model string) string

	Anthropic    bool // the provider takes Anthropic batch lines
	MaxLineBytes int  // longest line in bytes without its line end; 0 = DefaultMaxLineBytes, at most 1 GiB

	ready *prepared // by Preflight
}

// prepared is what is made of settings once.
type prepared struct {
	template *template.Template
	extra    []member // of ExtraBody
	hosted   bool     // ExtraBody names tools that the server runs
}

// maxLine is MaxLineBytes with its default and its bound, which spans of 32 bits need.
func (s *Settings) maxLine() int {
	if s.MaxLineBytes <= 0 {
		return DefaultMaxLineBytes
	}
	return min(s.MaxLineBytes, 1<<30)
}

// Record is one operation, ready to be sent.
type Record struct {
	Line     int             // physical line, from 1
	Op       string          // operation ID, spec §4
	CustomID json.RawMessage // the line's ID as it came; nil if it has none
	Shape    Shape
	API      string   // "/chat/completions", "/responses", "/embeddings", "/completions", "/moderations" or "/messages"
	Model    string   // that the body asks for
	Body     []byte   // the request's JSON
	Digest   [32]byte // of API, Model and Body: equal digests are the same request, which is what --dedupe goes by
	Sum      uint64   // of the line's bytes, the same from run to run
	Priority Priority
	Task     string // "" = none
	Tenant   string // "" = none
	Capped   bool   // the body has an output cap whose name llmbatch chose: see NameCap
	Never    bool   // must not be sent a second time: retry is "never", or the body names tools that the server runs

	// Metadata is the line's metadata as it stands. A plain line without one echoes its members that llmbatch does not read, as an
	// object, unless a flag makes a prompt of them.
	Metadata json.RawMessage
}
