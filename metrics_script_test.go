package main

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var metricsAt = regexp.MustCompile(`metrics at (http://[^/\s]+)/metrics`)

// scrape NAME PATH FILE asks the server of metrics that process NAME has announced;
// negated, it wants that there is nothing.
func scrape(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 3, "scrape name path file")
	at := metricsAt.FindStringSubmatch(ts.ReadFile(args[0] + ".err"))
	if at == nil {
		ts.Fatalf("%s has not said where its metrics are", args[0])
	}
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get(at[1] + args[1])
	ts.Check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	ts.Check(err)
	if ok := response.StatusCode == http.StatusOK; ok == neg {
		ts.Fatalf("%s: got status %s", args[1], response.Status)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), body, 0o600))
}

// sum VAR FILE METRIC sets a variable to the sum of a metric's series.
func sum(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 3, "sum var file metric")
	var total float64
	found := false
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		name, rest, _ := strings.Cut(line, "{")
		if name != args[2] {
			continue
		}
		found = true
		n, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, '}')+1:]), 64)
		ts.Check(err)
		total += n
	}
	if !found {
		ts.Fatalf("%s has no %s", args[1], args[2])
	}
	ts.Setenv(args[0], strconv.FormatFloat(total, 'f', -1, 64))
}
