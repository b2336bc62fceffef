# `make help` lists what there is. The shell work is in scripts/.

# The standard library of older toolchains has known vulnerabilities, so the build
# names its own and Go fetches it. To build with another: make HOLDFAST_GOTOOLCHAIN=local
export GOTOOLCHAIN := $(or $(HOLDFAST_GOTOOLCHAIN),go1.27.3)

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  := $(shell git describe --always --abbrev=40 --exclude '*' --dirty 2>/dev/null)
# The flags of make build for all that make test compiles, because the cache of go keeps what was
# compiled with others apart: every package would be compiled twice.
FLAGS   := -buildvcs=false -trimpath
BUILD   := go build $(FLAGS) -ldflags "-X main.version=$(VERSION) -X main.commit=$(COMMIT)"

.PHONY: help demo dev build test shapes browser chaos conformance conformance-all check bench go postgres bubblewrap tofu chromium

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 16

demo: build postgres bubblewrap ## a real tofu plans, applies and destroys through Holdfast, then its secret is searched for in all stored bytes
	bin/holdfast dev -- examples/demo/run.sh

dev: build postgres bubblewrap ## serve on https://localhost:8443 from ./.holdfast until interrupted
	bin/holdfast dev

build: go tofu ## build bin/holdfast and bin/holdfast-runner, and get bin/tofu (about ten minutes the first time, where it must be built)
	$(BUILD) -o bin/holdfast ./cmd/holdfast
	$(BUILD) -o bin/holdfast-runner ./cmd/holdfast-runner

test: export GOFLAGS := $(strip $(shell go env GOFLAGS 2>/dev/null) $(FLAGS))
test: build postgres bubblewrap ## go vet, then unit, database and end-to-end tests against one PostgreSQL cluster of their own
	go vet ./...
	go run ./internal/testdb/cmd/testcluster -- go test -vet=off -count=1 -timeout 30m ./...
	cd tools/gettofu && go test ./...

shapes: postgres ## every answer of the API's tests against the OpenAPI document of the original: make shapes OPENAPI=FILE
	@scripts/shapes.sh "$(OPENAPI)"

browser: build postgres chromium ## the pages and tofu login in a real browser, which is installed if need be
	bin/holdfast dev -- sh -c 'cd tests/browser && go test -count=1 ./...'

SEED ?= $(shell date +%s)

chaos: build postgres ## servers, runners, database, store and network break under traffic, then the history is checked (six minutes): make chaos SEED=7; an hour: LONG=1; one test: ONLY=TestChaos
	cd tests/chaos && CHAOS_SEED="$(SEED)" CHAOS_LONG="$(LONG)" go test -buildvcs=false -count=1 -v -parallel 3 -timeout $(if $(LONG),2h,15m) -run '$(ONLY)' .

conformance: build postgres bubblewrap ## go-tfe's own tests against a development stack, each in one mode (some minutes): make conformance TIER=T1; some of them: ONLY=TestRuns; those that must pass: KEPT=1
	@TIER="$(TIER)" ONLY="$(ONLY)" KEPT="$(KEPT)" scripts/conformance.sh

conformance-all: build postgres bubblewrap ## the same, each test in both modes of the suite
	@ALL=1 TIER="$(TIER)" ONLY="$(ONLY)" scripts/conformance.sh

check: go ## formatting, vet, staticcheck, known vulnerabilities, shell scripts
	@scripts/check.sh

bench: build postgres ## the speed of everything in one table (about ten minutes, and lists only by name); parts of it: make bench ONLY=state,rate; a whole minute's apply: BENCH_LONG=1
	@ONLY="$(ONLY)" BENCH_LONG="$(BENCH_LONG)" scripts/bench.sh

# What the targets above stand on; each installs what it can and says what to do where it cannot.

go:
	@scripts/go.sh

postgres:
	@scripts/postgres.sh

bubblewrap:
	@scripts/bubblewrap.sh

tofu: go
	@scripts/tofu.sh

chromium:
	@scripts/chromium.sh
