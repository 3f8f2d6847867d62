// Package report tells how the runs of a checkpoint went: as data, and as one
// page that needs no network.
package report
