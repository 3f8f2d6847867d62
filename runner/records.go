//go:build !norecords

package runner

// records says that a run keeps any. A build with the tag norecords, for the
// benchmark of what durability costs, writes neither rows nor results; no flag
// and no field of Config does that.
const records = true
