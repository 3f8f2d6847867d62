// Package queue orders operations: those that may start now (Ready) and those that may not start
// before a moment (Delayed). Both are plain data, not safe for concurrent use, and read no clock.
package queue
