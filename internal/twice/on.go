//go:build retrytwice && !plan9

// Package twice is what a build with the tag retrytwice adds to the loop: it throws
// away successes, as if their answers had been lost. In any other build On is false,
// and what stands behind it is in no binary. See docs/retrytwice.md.
package twice

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// On reports whether the tag is set.
const On = true

// Lost is what an attempt has failed with whose answer was thrown away: a connection
// that ended too early, in every way in which a RetryIf may ask.
type Lost struct{}

func (Lost) Error() string   { return "retrytwice: the answer was lost" }
func (Lost) Unwrap() []error { return []error{io.ErrUnexpectedEOF, syscall.ECONNRESET} } // Plan 9 has no ECONNRESET
func (Lost) Timeout() bool   { return true }
func (Lost) Temporary() bool { return true }

// A call is what one call of the loop knows.
type call struct {
	ctx      context.Context
	began    time.Time
	attempts int
	retries  func(attempt int, elapsed time.Duration) (after time.Duration, ok bool)
	decided  bool // at the first success: a call loses at most one
}

type key struct{}

// Not returns a context below which nothing is repeated.
func Not(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, (*call)(nil)) }

// Lossy returns fn as the loop should call it. Where a success is lost, again is called
// with a context that has no limit of the attempt. retries reports whether the policy
// tries again after [Lost], and after which delay.
func Lossy(ctx context.Context, retries func(attempt int, elapsed time.Duration) (time.Duration, bool), fn, again func(context.Context) error) func(context.Context) error {
	if share, _ := settings(); share == 0 {
		return fn
	}
	if c, known := ctx.Value(key{}).(*call); known && c == nil {
		return fn
	}
	c := &call{ctx: ctx, began: time.Now(), retries: retries}
	return func(attempt context.Context) error {
		c.attempts++
		err := fn(context.WithValue(attempt, key{}, c))
		if err == nil && c.loses() || err == error(Lost{}) {
			return again(context.WithValue(ctx, key{}, c))
		}
		return err
	}
}

// Loses reports whether an attempt that is about to succeed, and has this context,
// loses its answer. If so, undo what it did and return [Lost].
func Loses(ctx context.Context) bool {
	c, _ := ctx.Value(key{}).(*call)
	return c != nil && c.loses()
}

func (c *call) loses() bool {
	if c.decided {
		return false
	}
	c.decided = true
	share, seed := settings()
	functions, place := stack()
	// The functions alone decide: a test that runs by itself, or beside others, or with
	// another line in it, repeats what it repeated before.
	h := fnv.New64a()
	fmt.Fprintln(h, seed, functions)
	drawn := float64(h.Sum64()>>11)/(1<<53) < share
	if !drawn || c.ctx.Err() != nil {
		return false
	}
	after, ok := c.retries(c.attempts, time.Since(c.began))
	if deadline, bounded := c.ctx.Deadline(); !ok || bounded && time.Until(deadline) <= after {
		return false
	}
	announced.Do(func() {
		fmt.Fprintf(os.Stderr, "retrytwice: seed %d, share %v: repeats attempt %d of the call at %s; RETRY_TWICE=%v,%d\n",
			seed, share, c.attempts, place, share, seed)
	})
	return true
}

var announced sync.Once

// settings returns those of the process. A seed that is drawn is short to type.
var settings = sync.OnceValues(func() (share float64, seed uint64) {
	text := os.Getenv("RETRY_TWICE")
	if info, ok := debug.ReadBuildInfo(); text == "" && ok && strings.HasPrefix(info.Main.Path, "github.com/goretry/retry") {
		return 0, 0 // the library's own tests count attempts
	}
	first, second, seeded := strings.Cut(text, ",")
	share, err := 0.2, error(nil)
	if text != "" {
		share, err = strconv.ParseFloat(first, 64)
	}
	seed = rand.Uint64N(1_000_000)
	if seeded && err == nil {
		seed, err = strconv.ParseUint(second, 10, 64)
	}
	if err != nil || !(share >= 0 && share <= 1) {
		panic(fmt.Sprintf("RETRY_TWICE is %q: write a share from 0 to 1 and a seed, such as 0.2,123", text))
	}
	return share, seed
})

// ours are the functions between a call and the place that a user knows it by.
var ours = regexp.MustCompile(`^(net/http|github\.com/goretry/retry(/retry[a-z]+|/internal/[a-z]+)?)\.`)

// stack returns the functions that called the library, and the place of the call.
func stack() (functions, place string) {
	counters := make([]uintptr, 256)
	frames := runtime.CallersFrames(counters[:runtime.Callers(1, counters)])
	for more, called := true, false; more; {
		var f runtime.Frame
		if f, more = frames.Next(); ours.MatchString(f.Function) {
			called = called || f.Function == "github.com/goretry/retry.Do" // before it there is what fn called, such as a transact
			continue
		}
		if called && place == "" {
			place = fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		functions += f.Function + "\n"
	}
	return functions, place
}
