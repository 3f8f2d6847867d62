//go:build !norecords && !nofiles

package runner

// What a run keeps. A build with the tag norecords writes no rows, and one with
// the tag nofiles neither rows nor results: the benchmark of what durability
// costs has them, and no flag and no field of Config does that.
const records, results = true, true
