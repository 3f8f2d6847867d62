// Package route says where a call goes: the config file with its providers,
// models, retry policies and tasks, the targets of a task in their order, the
// conditions under which one hands over to the next, the breaker of a target,
// and what gives way under pressure.
//
// It is pure: it starts nothing and reads no clock, file or environment. Times
// and file contents are arguments, and states are the caller's.
package route
