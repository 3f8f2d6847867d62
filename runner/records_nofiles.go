//go:build nofiles

package runner

const records, results = false, false
