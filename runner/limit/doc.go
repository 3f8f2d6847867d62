// Package limit decides when a call may go: requests and tokens a minute and a day, the calls on
// the wire, and the pauses that a server asks for. It reads no clock, starts no goroutine and
// draws no random number of its own, so the same code paces a run and is tested in virtual time.
//
// # What a user's cap promises
//
// In any rolling minute no more than the cap is admitted. Each charge counts from Reserve until a
// minute and a guard (250 ms) after Sent, the moment at which its request was written; a call that
// was never reported as sent counts at least until it is settled. Reserve grants only if everything
// that counts, and the new charge, fit the cap. So of two calls more than a cap apart in order, the
// later one is written at least 60.25 s after the earlier one, and unless their ways to the server
// differ by more than the guard, a server that counts in a rolling window, in a fixed window of any
// phase or by a bucket refilled at the limit sees no minute above it. Attempts of earlier runs are
// put into the same log with Seed. The log merges charges of 10 ms (a minute, for days), which
// makes them leave later, never sooner.
//
// # What leads a limit that no one gave
//
// The server. Headers on successes give a limit, which is kept like a cap, and a remaining figure,
// which less what was sent since is a bound of its own (for users' caps too); where reset and
// remaining show a bucket refilled continuously, that bucket is used to the full instead of the
// log. Without headers the first refusal tells: the limiter pauses, sends one call, then paces
// evenly at the limit that the refusal stated, or else (from the second refusal on) at what the last
// minute admitted, or at what came between two refusals shortly after each other if that is more; and
// raises the pace on successes only.
//
// # Use
//
//	t, wait := l.Reserve(now, cost) // both budgets and a place on the wire, or none
//	…                               // wait.Until, or any Settle, is when to ask again
//	l.Sent(at, t)                   // the request was written
//	l.Settle(now, t, answer)        // on the answer, before anything else is done with it
package limit
