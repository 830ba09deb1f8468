package retry_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A goroutine starts with 2 KiB of stack, and needs twice as much if its frames
// do not fit. The stacks are measured in a separate process, in which all
// goroutines start with the same stack; otherwise the runtime would adapt the
// initial size to the goroutines that it has seen.
const bornAlike = "adaptivestackstart=0"

func TestACallThatWaitsKeepsItsSmallStack(t *testing.T) {
	if os.Getenv("GODEBUG") == bornAlike {
		for subject, start := range waiting {
			synctest.Test(t, func(t *testing.T) { t.Logf("%s holds %d bytes", subject, stackOf(start)) })
		}
		return
	}
	if testing.CoverMode() != "" {
		t.Skip("the coverage counters need space in every stack frame")
	}
	executable, err := os.Executable()
	require.NoError(t, err)
	process := exec.CommandContext(t.Context(), executable, "-test.run=^TestACallThatWaitsKeepsItsSmallStack$", "-test.v")
	process.Env = append(os.Environ(), "GODEBUG="+bornAlike, "GOMAXPROCS=1")
	out, err := process.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Skip("this system cannot run the test binary again: ", err)
	}
	require.NoError(t, err, "%s", out)
	held := make(map[string]float64)
	for _, match := range regexp.MustCompile(`(\w+) holds (\d+) bytes`).FindAllStringSubmatch(string(out), -1) {
		held[match[1]], err = strconv.ParseFloat(match[2], 64)
		require.NoError(t, err)
	}
	require.Len(t, held, len(waiting), "%s", out)
	for subject := range waiting {
		t.Run(subject, func(t *testing.T) {
			most := 1.5
			if subject == "DoValueLiteralInFunction" && !strings.HasPrefix(runtime.Version(), "go1.26") {
				most = 2 // the frame of a select is 16 bytes larger than in Go 1.26, which is 8 too many here
			}
			assert.Less(t, held[subject], most*held["bare"], "bytes of stack, where the bare loop has %v", held["bare"])
		})
	}
}

// stackOf returns the bytes of stack of a call that waits.
func stackOf(start func(context.Context, func(context.Context) error, func())) uint64 {
	const calls = 5000
	inUse := func() uint64 {
		runtime.GC()
		runtime.GC() // frees the stack space that the first collection has found to be unused
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.StackInuse
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before := inUse()
	for range calls {
		start(ctx, func(context.Context) error { return errDial }, func() {})
	}
	synctest.Wait()
	return (inUse() - before) / calls
}
