//go:build norecords

package runner

const records = false
