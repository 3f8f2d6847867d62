// Package series keeps what a run looked like over time, in a bounded number of
// points, for the report. It is pure: whoever drives it gives the time.
package series
