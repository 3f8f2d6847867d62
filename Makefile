# Versions of the tools stand in .ci/run as well; both are changed together.
GOFUMPT     = go run mvdan.cc/gofumpt@v0.12.0
STATICCHECK = go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
# ./... leaves testdata out; the programs there are code all the same.
PACKAGES = ./... ./testdata/figures ./testdata/faults ./testdata/report ./testdata/terminal ./testdata/prometheus ./testdata/harness
FUZZTIME ?= 60s
SOAK     ?= 30m
COUNT    ?= 1
MOST     ?= 1000000

.PHONY: help build test race lint script thirdparty load fuzz soak crash faults reliability figures terminal metrics-test report-test bench ratios growth demo

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## one static binary, ./llmbatch
	CGO_ENABLED=0 go build -trimpath -o llmbatch .

test: ## every test
	go test ./...

race: ## every test under the race detector
	go test -race ./...

lint: ## formatting, vet, staticcheck, and golangci-lint where it is installed
	@test -z "$$($(GOFUMPT) -l .)" || { $(GOFUMPT) -d .; exit 1; }
	go vet $(PACKAGES)
	go vet -C testdata/bench .
	$(STATICCHECK) $(PACKAGES)
	@if command -v golangci-lint >/dev/null; then golangci-lint run $(PACKAGES); fi

script: ## the command-line scripts, afresh
	go test -count=1 -run '^TestScript$$' .

thirdparty: ## against servers not written here: aimock (npm), toxiproxy, nginx
	.ci/thirdparty

load: ## 10,000 calls in flight for ten minutes
	go run ./testdata/figures -only load

fuzz: ## each fuzz target for FUZZTIME
	.ci/fuzz $(FUZZTIME)

soak: ## a run with faults and random kills for SOAK
	go run ./testdata/figures -only soak -soak $(SOAK)

crash: ## kill at every sync, write and rename in turn; needs strace
	go run ./testdata/figures -only crash

faults: ## every fault of the catalogue, F01 to F55 (a quarter of an hour); as root, with strace
	go run ./testdata/faults

reliability: ## faults, kills, hostile bytes and fuzzing, with one table (3 hours)
	.ci/reliability $(FUZZTIME) $(SOAK)

figures: ## what the program promises, measured against the mock (a quarter of an hour)
	go run ./testdata/figures

terminal: ## what stands on terminals of 80 and 40 columns; needs tmux
	go run ./testdata/terminal

metrics-test: ## a real Prometheus scrapes a run; dashboard and alerts; needs prometheus
	go run ./testdata/prometheus

report-test: ## the report's page, in headless Chromium; needs chromium
	go run ./testdata/report

bench: ## benchmarks of each part, for benchstat (COUNT=10), and of whole programs
	go test -run '^$$' -bench . -benchmem -count $(COUNT) ./...
	go run -C testdata/bench . -only ratios

ratios: ## whole runs and parts against their limits and peers, medians of five
	go run -C testdata/bench . -only ratios,parts,paced,flight

growth: ## the same figures from 10,000 lines to MOST
	go run -C testdata/bench . -only growth -most $(MOST)

demo: ## the main job without account or network
	go run . run testdata/tickets.jsonl --provider mock
