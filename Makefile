# "make check" is what a change must pass. .ci/run first installs and starts what it needs.
#   make test MODULES=adapters/retrynats   one directory; so do race and lint
#   make race FLAGS=-count=20              more flags of go test
#   make fuzz FUZZTIME=1m SKIP=            longer, and the targets of the adapters too
SHELL := /bin/bash -o pipefail
MODULES := $(shell find . -name go.mod -not -path './.ci/*' -exec dirname {} + | sort)
OURS = $(filter-out ./adapters/% ./benchmarks ./examples/% ./integration,$(MODULES))
NEWEST = go$(shell go list -m -f '{{.Version}}' go@latest)
BIN := $(shell mkdir -p .ci/bin && echo $(CURDIR)/.ci/bin)
# $(call in,directories,command) runs a command in each. In cmd/retry, go finds cmd/go.work.
in = @time for dir in $(1); do echo "-- $@ $$dir"; (cd $$dir && $(2)) || exit; done
.PHONY: check test race lint fuzz platforms soak
check: lint test race fuzz platforms

# Without Go's cache of results, which ignores files of other modules. lint runs vet.
test:
	$(call in,$(MODULES),go test -vet=off -count=1 $(FLAGS) ./...)

# Not what computes in one goroutine. The detector itself can crash in tests with synctest
# (golang/go#78156): then once more.
racing = go test -race -vet=off -shuffle=on $(FLAGS) ./...
race:
	$(call in,$(filter-out ./cmd/% ./retrysim,$(OURS)),$(racing) |& tee $(BIN)/race || \
	  { grep -q '^ThreadSanitizer: CHECK failed' $(BIN)/race && \
	  ! grep -qE -e '--- FAIL|DATA RACE|^panic:' $(BIN)/race && $(racing); })

# go install takes no replace, so tidy judges a copy of cmd/retry/go.mod with those of go.work.
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

# The newest Go, because up to 1.26 a target that finds nothing can fail (golang/go#75804).
FUZZTIME := 1s
SKIP := ./adapters/%
TARGETS = $(shell grep -rHoE '^func Fuzz\w+' --include='*_test.go' . | sed 's|/[^/]*:func |:|')
fuzz: export GOTOOLCHAIN = $(NEWEST)
fuzz:
	@time for of in $(filter-out $(SKIP),$(TARGETS)); do echo "-- $@ $$of"; \
	  go test -C $${of%:*} -run None -fuzz "^$${of#*:}$$" -fuzztime $(FUZZTIME) . || exit; done

# Emulators run what depends on the size and the rounding of numbers. The rest compiles there.
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
