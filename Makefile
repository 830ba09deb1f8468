# A change must pass "make check". .ci/run installs and starts what the tests need, and runs it.
#   make test MODULES=adapters/retrynats   tests one directory
#   make race FLAGS=-count=20              passes more flags to go test
#   make fuzz FUZZTIME=1m SKIP=            fuzzes longer, and fuzzes the adapters too
SHELL := /bin/bash -o pipefail
MODULES := $(shell find . -name go.mod -not -path './.ci/*' -exec dirname {} + | sort)
OURS = $(filter-out ./adapters/% ./benchmarks ./examples/% ./integration,$(MODULES))
NEWEST = go$(shell go list -m -f '{{.Version}}' go@latest)
BIN := $(shell mkdir -p .ci/bin && echo $(CURDIR)/.ci/bin)
# $(call in,directories,command) runs a command in each. In cmd/retry, go finds cmd/go.work.
in = @time for dir in $(1); do echo "-- $@ $$dir"; (cd $$dir && $(2)) || exit; done
.PHONY: check test race lint fuzz platforms soak
check: lint test race fuzz platforms

# -count=1, because Go's cache of test results ignores files of other modules. lint runs vet.
test:
	$(call in,$(MODULES),go test -vet=off -count=1 $(FLAGS) ./...)

# Code that computes in one goroutine is left out. The race detector itself can crash in tests
# with synctest (golang/go#78156). Then the tests run once more.
racing = go test -race -vet=off -shuffle=on $(FLAGS) ./...
race:
	$(call in,$(filter-out ./cmd/% ./retrysim,$(OURS)),$(racing) |& tee $(BIN)/race || \
	  { grep -q '^ThreadSanitizer: CHECK failed' $(BIN)/race && \
	  ! grep -qE -e '--- FAIL|DATA RACE|^panic:' $(BIN)/race && $(racing); })

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
FUZZTIME := 1s
SKIP := ./adapters/%
TARGETS = $(shell grep -rHoE '^func Fuzz\w+' --include='*_test.go' . | sed 's|/[^/]*:func |:|')
fuzz: export GOTOOLCHAIN = $(NEWEST)
fuzz:
	@time for of in $(filter-out $(SKIP),$(TARGETS)); do echo "-- $@ $$of"; \
	  go test -C $${of%:*} -run None -fuzz "^$${of#*:}$$" -fuzztime $(FUZZTIME) . || exit; done

# Emulators run packages that depend on the size and rounding of numbers; other systems compile.
NUMBERS := . ./internal/saturate ./internal/strict ./internal/vectors ./retryjob
platforms:
	GOAMD64=v3 go test -vet=off ./internal/vectors
	@time for cpu in arm=arm arm64=aarch64; do echo "-- $$cpu"; export GOARCH=$${cpu%=*}; \
	  run="go test -vet=off -exec qemu-$${cpu#*=}-static"; $$run $(NUMBERS) && \
	  (cd retrysim && $$run -run '^TestSameOnEveryPlatform$$' .) || exit; done
	@time for on in linux/386 windows/amd64 darwin/arm64; do echo "-- $$on"; \
	  GOOS=$${on%/*} GOARCH=$${on#*/} go build ./... || exit; done
	@time for go in go1.25.0 $(NEWEST); do export GOTOOLCHAIN=$$go && go version && \
	  go vet ./... && go test -vet=off . ./docs ./retrytest ./retryjob || exit; done
soak: ; .ci/soak
