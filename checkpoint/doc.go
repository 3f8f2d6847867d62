// Package checkpoint keeps what a run knows of its operations in one bbolt file, so that any stop can be resumed
// without paying twice.
//
// # States
//
//	(no row) pending ──► in_flight ──► completed
//	                       │  ▲  └───► dead_letter
//	                       ▼  │
//	                     delayed        in_flight ──crash, or a failure past the sending──► unknown
//
// # Order of writes
//
// The in_flight row is on disk before the first byte of the request leaves: after a crash an operation without a row
// was never sent, and one with an in_flight row may have been. A terminal row is written after its line is synced to the
// output or the errors file: a row never points at a line that is not there. The runner keeps this order; the store's
// part is that Put returns only when the row is durable.
//
// # File
//
// The bucket "operations" maps an 8-byte big-endian sequence number, given at the first Put, to a row (see row.go).
// Numbers start at 1 and leave no gap, and rows are never deleted: a missing row is therefore seen as damage.
// The bucket "meta" holds the schema version and Meta. Rows and Meta end in a checksum.
//
// Sequence numbers and not operation IDs are the key because pages are then filled in order: at a million rows that is
// about twelve times faster than random keys, and the file is half as large.
package checkpoint
