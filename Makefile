# .ci/run installs and starts what the tests need, and runs "make check", which a change must pass.
#   make test MODULES=adapters/retrynats   tests one directory
#   make race FLAGS=-count=20              passes more flags to go test
#   make fuzz FUZZTIME=1m SKIP=            fuzzes each target, also those of the adapters
SHELL := /bin/bash -o pipefail
MODULES := $(shell find . -name go.mod -not -path './.ci/*' -exec dirname {} + | sort)
OURS = $(filter-out ./adapters/% ./benchmarks ./examples/% ./integration,$(MODULES))
NEWEST = go$(shell go list -m -f '{{.Version}}' go@latest)
BIN := $(shell mkdir -p .ci/bin && echo $(CURDIR)/.ci/bin)
# $(call in,directories,command) runs a command in each. In cmd/retry, go finds cmd/go.work.
in = @time for dir in $(1); do echo "-- $@ $$dir"; (cd $$dir && $(2)) || exit; done
TESTS = $(MODULES:%=test/%)
.PHONY: check test race lint fuzz platforms soak $(TESTS)
# The root is tested by race, and without the race detector by the "go test ./..." of the README.
check: race $(filter-out test/.,$(TESTS)) platforms lint
# Each directory is a target, so that make runs other tests while some wait for their servers.
# -count=1 is set because Go's cache of test results ignores files of other modules. lint runs vet.
test: $(TESTS)
$(TESTS): test/%:
	@echo "-- $@" && cd $* && time go test -vet=off -count=1 $(FLAGS) ./...

# Code that computes in one goroutine is left out, and -short makes random tests shorter. The race
# detector can crash in tests with synctest (golang/go#78156). Then the package is tested again.
racing = xargs go test -race -short -vet=off -shuffle=on $(FLAGS)
race:
	$(call in,$(filter-out ./cmd/% ./retrysim,$(OURS)),go list ./... | \
	  grep -vE '/(eventstream|jinja|strict|saturate|vectors|api)$$' | $(racing) |& tee $(BIN)/race || \
	  { grep -q '^ThreadSanitizer: CHECK failed' $(BIN)/race && \
	  ! grep -qE -e '--- FAIL|DATA RACE|^panic:' $(BIN)/race && \
	  awk '/^FAIL\t/ { print $$2 }' $(BIN)/race | $(racing); })
# go install refuses a replace, so tidy checks a copy of cmd/retry/go.mod with those of go.work.
lint:
	test -z "$$(gofmt -l . | tee /dev/stderr)"
	$(call in,$(filter-out ./cmd/%,$(MODULES)) .ci/tools,go mod tidy -diff)
	cp cmd/retry/go.mod $(BIN)/retry.mod && cp cmd/retry/go.sum $(BIN)/retry.sum
	sed -n '/^replace/,$$ { s|=> |=> ../|; p; }' cmd/go.work >>$(BIN)/retry.mod
	cd cmd/retry && GOWORK=off go mod tidy -diff -modfile=$(BIN)/retry.mod
	go build -C cmd/retry -o $(BIN)/check ./internal/check
	$(call in,$(MODULES),$(BIN)/check ./...)
	go build -C .ci/tools -o $(BIN)/staticcheck honnef.co/go/tools/cmd/staticcheck
	$(call in,$(OURS),$(BIN)/staticcheck ./...)
	.ci/renamed
# With the newest Go, because up to 1.26 fuzzing can fail without a finding (golang/go#75804).
FUZZTIME := 10s
SKIP := ./adapters/%
TARGETS = $(shell grep -rHoE '^func Fuzz\w+' --include='*_test.go' . | sed 's|/[^/]*:func |:|')
fuzz:
	@export GOTOOLCHAIN=$(NEWEST); time for of in $(filter-out $(SKIP),$(TARGETS)); do echo "-- $@ $$of"; \
	  go test -C $${of%:*} -run None -fuzz "^$${of#*:}$$" -fuzztime $(FUZZTIME) . || exit; done

# Emulators run tests that depend on the size of an int (arm) and on rounding (arm64 fuses a*b+c).
# Tests called Principle read source code. For Windows and macOS, the code is only compiled.
NUMBERS := ./internal/saturate ./internal/strict ./internal/vectors
platforms:
	GOARCH=arm go test -short -vet=off -exec qemu-arm-static -skip Principle . ./retryjob $(NUMBERS)
	GOARCH=arm64 go test -vet=off -exec qemu-aarch64-static $(NUMBERS)
	GOARCH=arm64 go test -C retrysim -vet=off -exec qemu-aarch64-static -run SameOnEveryPlatform .
	GOOS=windows go build ./... && GOOS=darwin go build ./...
	export GOTOOLCHAIN=go1.25.0 && go vet ./... && go test -vet=off . ./docs ./retrytest ./retryjob
soak: ; .ci/soak
