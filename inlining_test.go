package retry_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// user is a package that calls the loops as a program does.
const user = `package user

import (
	"context"

	"github.com/goretry/retry"
)

var policy = retry.Default()

func Do(ctx context.Context, fn func(context.Context) error) error {
	return retry.Do(ctx, policy, fn)
}

func DoValue(ctx context.Context, fn func(context.Context) (int, error)) (int, error) {
	return retry.DoValue(ctx, policy, fn)
}

func Once(ctx context.Context, a retry.Attempt, fn func(context.Context) error) (retry.Decision, error) {
	return retry.Once(ctx, policy, a, fn)
}
`

// compile compiles the root package and user for amd64. It returns the
// compiler's messages, such as "retry.go: can inline Do", and the assembly.
func compile(t *testing.T) (says map[string]bool, assembly string) {
	t.Helper()
	command, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command: ", err)
	}
	// An overlay adds user to this module without writing a file into it.
	module, err := os.Getwd()
	require.NoError(t, err)
	source, overlay := filepath.Join(t.TempDir(), "user.go"), filepath.Join(t.TempDir(), "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(module, "internal", "user", "user.go"): source}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(source, []byte(user), 0o600))
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))

	build := exec.CommandContext(t.Context(), command, "build", "-overlay", overlay, "-gcflags=-m -S", ".", "./internal/user")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "GOFLAGS=", "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	says = make(map[string]bool)
	for _, line := range regexp.MustCompile(`(?m)^\S*?(\w+\.go):\d+:\d+: (.*)$`).FindAllStringSubmatch(string(out), -1) {
		says[line[1]+": "+line[2]] = true
	}
	return says, string(out)
}

// A goroutine starts with 2 KiB of stack and keeps it only while the frames
// from its entry to the sleep are small.
func TestInlining(t *testing.T) {
	says, assembly := compile(t)
	for _, want := range []string{
		"retry.go: can inline Do",
		"once.go: can inline Once",
		"user.go: inlining call to retry.Do",
		"user.go: inlining call to retry.DoValue[go.shape.int]",
		"user.go: inlining call to retry.Once",
	} {
		t.Run(want, func(t *testing.T) { assert.True(t, says[want]) })
	}
	t.Run("the frame of do is at most 128 bytes", func(t *testing.T) {
		frame := regexp.MustCompile(`(?m)^github\.com/goretry/retry\.\(\*Policy\)\.do STEXT .*\blocals=0x([0-9a-f]+)`).FindStringSubmatch(assembly)
		require.NotNil(t, frame, "there is no do in the assembly")
		bytes, err := strconv.ParseUint(frame[1], 16, 32)
		require.NoError(t, err)
		assert.LessOrEqual(t, bytes, uint64(128))
	})
}

// ofClass is tenAttempts where every failure is of this class.
func ofClass(class *retry.Class) retry.Policy {
	p := tenAttempts
	p.Classify = func(error) *retry.Class { return class }
	return p
}

var (
	unnamedClass = ofClass(&retry.Class{Policy: &retry.Policy{}})
	namedClass   = ofClass(&retry.Class{Name: "busy", Policy: &retry.Policy{}})

	allocPolicy = retry.Policy{
		MaxAttempts: 5, Backoff: retry.Exponential{Base: 200 * time.Millisecond}, MaxDelay: 5 * time.Second, Jitter: retry.Proportional(.2),
		Budget: &retry.Budget{Size: 10, Ratio: .1}, RetryIf: func(error) bool { return true },
	}
	tenAttempts = retry.Policy{MaxAttempts: 10}
	bounded     = retry.Policy{MaxAttempts: 5, MaxElapsed: time.Minute}
	timed       = retry.Policy{MaxAttempts: 5, AttemptTimeout: time.Minute}
	healthy     = retry.Policy{MaxAttempts: 5, HealthyAfter: time.Minute}
	observed    = retry.Policy{MaxAttempts: 5, MaxElapsed: time.Minute, OnEvent: func(context.Context, retry.Event) {}}
)

// execute does what a bare loop would do for an AttemptTimeout.
func execute(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return fn(ctx)
}

func TestAllocations(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	budgeted := retry.WithBudget(retry.WithBudget(ctx, &retry.Budget{Size: 1_000_000}), &retry.Budget{Size: 1_000_000})
	succeed := func(context.Context) error { return nil }
	fail := func(context.Context) error { return errDial }
	var err error
	value := 0
	for _, row := range []struct {
		name string
		most float64
		call func()
		want error
	}{
		{"success at once: Do", 0, func() { err = retry.Do(ctx, allocPolicy, succeed) }, nil},
		{"success at once: DoValue", 0, func() {
			value, err = retry.DoValue(ctx, allocPolicy, func(context.Context) (int, error) { return value + 1, nil })
		}, nil},
		{"success at once: Once", 0, func() { _, err = retry.Once(ctx, allocPolicy, retry.Attempt{Number: 1}, succeed) }, nil},
		{"success of a later attempt: Once", 0, func() { _, err = retry.Once(ctx, allocPolicy, retry.Attempt{Number: 3, Seed: 42}, succeed) }, nil},
		{"success at once, with OnEvent: Once", 0, func() { _, err = retry.Once(ctx, observed, retry.Attempt{Number: 1}, succeed) }, nil},
		{"success at once, with HealthyAfter: Do", 0, func() { err = retry.Do(ctx, healthy, succeed) }, nil},
		{"success at once, with Budgets of the context: Do", 0, func() { err = retry.Do(budgeted, allocPolicy, succeed) }, nil},
		{"success at once, with MaxElapsed: Do", 0, func() { err = retry.Do(ctx, bounded, succeed) }, nil},
		{"success at once, with OnEvent: Do", 0, func() { err = retry.Do(ctx, observed, succeed) }, nil},
		{"success at once, with MaxElapsed and OnEvent: DoValue", 0, func() {
			value, err = retry.DoValue(ctx, observed, func(context.Context) (int, error) { return value + 1, nil })
		}, nil},
		{"success at once, with AttemptTimeout: Do, as many as context.WithTimeout", testing.AllocsPerRun(100, func() { _ = execute(ctx, succeed) }), func() { err = retry.Do(ctx, timed, succeed) }, nil},
		{"ten failures, with Budgets of the context: Do", 1, func() { err = retry.Do(budgeted, tenAttempts, fail) }, errDial},
		{"ten failures: Do", 1, func() { err = retry.Do(ctx, tenAttempts, fail) }, errDial},
		{"ten failures: DoValue", 1, func() {
			value, err = retry.DoValue(ctx, tenAttempts, func(context.Context) (int, error) { return 0, errDial })
		}, errDial},
		{"ten failures of a class without a name: Do", 1, func() { err = retry.Do(ctx, unnamedClass, fail) }, errDial},
		{"ten failures of a class with a name: Do", 2, func() { err = retry.Do(ctx, namedClass, fail) }, errDial},
		{"Next with jitter and seed", 0, func() {
			if allocPolicy.Next(retry.Attempt{Number: 3, Err: errDial, Seed: 42}).Retry() {
				err = nil
			}
		}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := testing.AllocsPerRun(100, row.call)
			require.ErrorIs(t, err, row.want)
			assert.LessOrEqual(t, got, row.most)
		})
	}
}
