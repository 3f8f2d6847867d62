package checkpoint

import "time"

// Status says how far an operation has come.
type Status uint8

const (
	// Pending operations have no row, or one whose request was never handed to the transport. The runner moves them on
	// to InFlight. A crash leaves them as they are.
	Pending Status = iota

	// InFlight operations may be on the wire. The runner moves them on when an attempt ends. A crash leaves them
	// InFlight, and the next start makes them Unknown.
	InFlight

	// Delayed operations wait for NotBefore after a failed attempt. A crash leaves them as they are.
	Delayed

	// Completed operations have their line in the output at Offset. Final, unless the line's request is edited.
	Completed

	// DeadLetter operations have their line in the errors file at Offset. A rerun may put them back, with Incarnation
	// raised.
	DeadLetter

	// Unknown operations were sent and no complete answer came: the provider may have billed them. The runner sends
	// them again with the same key after the reconciliation delay, or holds them.
	Unknown
)

// String returns the status as files and JSON write it.
func (s Status) String() string {
	names := [...]string{"pending", "in_flight", "delayed", "completed", "dead_letter", "unknown"}
	if int(s) < len(names) {
		return names[s]
	}
	return "invalid"
}

// Operation is one row. Zero fields take no space in the file. Times are kept to the nanosecond, without a zone.
type Operation struct {
	Seq         uint64 // key in the store; 0 = not stored yet, Put gives the next number
	ID          string // operation ID
	Status      Status
	Digest      [32]byte // of the request as sent
	Sum         uint64   // of the input line's bytes
	Line        int      // physical line of the input, from 1
	Key         string   // idempotency key
	Incarnation int      // raised by each retry of a dead letter
	Provider    string   // of the last attempt
	Model       string   // asked for, in the last attempt
	Attempts    []Attempt
	NotBefore   time.Time // for Delayed and Unknown: earliest moment of the next attempt
	RequestID   string    // the provider's, of the last answer
	Usage       Usage
	Class       string   // error class of a failure; "" = none
	Finish      string   // stop, length, refused, content_filter, tool_calls
	Offset      int64    // of the line in the output (Completed) or the errors file (DeadLetter)
	Length      int64    // of that line without its newline; 0 = there is none
	CopyOf      string   // operation ID whose answer this one shares
	FromCache   bool     // the answer is one that an earlier call of some run kept
	Degraded    []string // what the last attempt's request, or the answer, gave up under pressure; empty = nothing
	Created     time.Time
	Finished    time.Time
	LatencyMS   int64 // of the last attempt, milliseconds from sent to the whole answer
}

// Attempt is one wire request.
type Attempt struct {
	At         time.Time // request written, or handed to the transport if it never was
	Provider   string
	Model      string
	StatusCode int    // 0 = no answer
	Class      string // error class; "" = answered
	RequestID  string // the provider's
	Charge     Charge // as reserved; later runs seed their limits with it
	Sent       bool   // bytes may have left
	AnswerID   string // by which the provider can be asked for the answer; "" = not known, or it cannot
	LookedUp   bool   // the answer did not come by the call itself, but by asking for it
	Streamed   bool   // its request asked for a stream
}

// Charge is what an attempt took from the limits.
type Charge struct {
	Requests int64
	Tokens   int64 // token budget, or input budget where the provider counts input and output apart
	Output   int64 // output budget where the provider counts it apart
}

// Usage is what the provider says it billed, in tokens.
type Usage struct {
	Input     int64
	Output    int64
	Cached    int64 // part of Input
	Reasoning int64 // part of Output
	Known     bool  // false = the answer carried no usage
}

// Meta describes the run that a checkpoint belongs to. It is stored as JSON.
type Meta struct {
	InputName   string            `json:"input_name"`
	InputSHA    string            `json:"input_sha256"`       // hex, of the decompressed bytes
	Settings    map[string]string `json:"settings"`           // those that change requests' bytes or destination
	Salt        string            `json:"salt"`               // hex; part of every idempotency key
	Operations  int64             `json:"operations"`         // of the input, at the last start
	OutputStamp string            `json:"output_stamp"`       // size and time of the output at the end of the last run; "" = it ended otherwise
	ErrorsStamp string            `json:"errors_stamp"`       // the same of the errors file
	Generation  uint64            `json:"generation"`         // raised each time the output or the errors file is rewritten
	Charging    map[string]string `json:"charging,omitempty"` // how accounts were found to charge calls; the runner words it
	Created     time.Time         `json:"created"`
}
