package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrylog"
)

// BenchmarkGrowth runs each function with an input of one size, and then with an input ten times as
// large. It fails if the CPU time grows by a factor of more than 30. In a row that is marked as
// square, the factor may be up to 300. .ci/soak runs it.
func BenchmarkGrowth(b *testing.B) {
	const linear, square = 1, 2
	fails := func(context.Context) error { return errDial }
	line := `{"kind":"attempt_started","time":"2026-11-20T10:31:00Z","attempt":1,"max":4}` + "\n"
	read := func(log string) { _, _ = retrylog.Read(strings.NewReader(log)) }
	answer := func(value string) *http.Response {
		return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {value}, "Ratelimit": {value}}}
	}
	for _, row := range []struct {
		name   string
		n      int
		growth int
		does   func(n int) func()
	}{
		{"a text with n delays", 10_000, linear, func(n int) func() {
			text := []byte(`{"backoff": {"type": "schedule", "delays": ["1s"` + strings.Repeat(`, "1s"`, n) + `]}}`)
			return func() { require.NoError(b, json.Unmarshal(text, new(retry.Policy))) }
		}},
		{"a text with n unknown keys", 10_000, linear, func(n int) func() {
			var text strings.Builder
			for i := range n {
				fmt.Fprintf(&text, `"key%d": 1, `, i)
			}
			return func() {
				require.Error(b, json.Unmarshal([]byte("{"+text.String()+`"max_attempts": 1}`), new(retry.Policy)))
			}
		}},
		{"Do makes n attempts with a Schedule of n", 10_000, linear, func(n int) func() {
			p := retry.Policy{MaxAttempts: n, Backoff: make(retry.Schedule, n)}
			return func() { require.Error(b, retry.Do(b.Context(), p, fails)) }
		}},
		// Each Next validates the whole policy, because a Policy cannot store that it is valid. Checking
		// a delay takes less than a nanosecond, so a Schedule of 1,000 delays takes less time than the
		// rest of Next.
		{"Next is called n times with a Schedule of n", 1_000, square, func(n int) func() {
			p := retry.Policy{MaxAttempts: n + 1, Backoff: make(retry.Schedule, n)}
			return func() {
				for i := range n {
					p.Next(retry.Attempt{Number: i + 1, Err: errDial})
				}
			}
		}},
		{"a Plan of a Schedule of n", 1_000, linear, func(n int) func() {
			p := retry.Policy{MaxAttempts: n, Backoff: make(retry.Schedule, n)}
			return func() { require.NotEmpty(b, p.Plan(-1)) }
		}},
		{"LendBudget in n Budgets", 100, linear, func(n int) func() {
			ctx := nested(b.Context(), n)
			return func() { _, back := retry.LendBudget(ctx, 3, false); back(3) }
		}},
		{"a retry in n Budgets", 100, linear, func(n int) func() {
			ctx := nested(b.Context(), n)
			return func() { require.Error(b, retry.Do(ctx, retry.Policy{MaxAttempts: 2}, fails)) }
		}},
		// WithBudget checks whether the context already contains the Budget, so n calls take a time that
		// grows with the square of n. A hundred calls take less than 0.1 ms.
		{"WithBudget n deep", 100, square, func(n int) func() {
			return func() { nested(b.Context(), n) }
		}},
		// Each Do reads the error of the Do inside it.
		{"Do in Do n deep", 100, square, func(n int) func() {
			var deep func(int) error
			deep = func(n int) error {
				if n == 0 {
					return errDial
				}
				return retry.Do(b.Context(), retry.Policy{}, func(context.Context) error { return deep(n - 1) })
			}
			return func() { require.Error(b, deep(n)) }
		}},
		{"an error that wraps n others", 1_000, linear, func(n int) func() {
			err := errDial
			for range n {
				err = &wrapping{err}
			}
			return func() { require.False(b, retry.IsPermanent(err)); require.Zero(b, retry.RetryAfterOf(err)) }
		}},
		{"an error that joins n others", 1_000, linear, func(n int) func() {
			err := errors.Join(make([]error, n)...)
			for range n {
				err = errors.Join(err, errDial)
			}
			return func() { retry.IsPermanent(err) }
		}},
		{"a log of n lines", 1_000, linear, func(n int) func() {
			log := strings.Repeat(line, n)
			return func() { read(log) }
		}},
		{"a line of n events", 90, linear, func(n int) func() {
			log := strings.Repeat(strings.TrimSpace(line), n)
			return func() { read(log) }
		}},
		{"a line of n keys", 1_000, linear, func(n int) func() {
			log := "level=INFO " + strings.Repeat("a=b ", n)
			return func() { read(log) }
		}},
		{"a line of n brackets", 1_000, linear, func(n int) func() {
			log := `{"kind":` + strings.Repeat("[", n)
			return func() { read(log) }
		}},
		{"a header of n waits", 10_000, linear, func(n int) func() {
			resp := answer(strings.Repeat("1, ", n))
			return func() { retryhttp.VendorAdvice(resp) }
		}},
		{"a host of n letters", 10_000, linear, func(n int) func() {
			req := &http.Request{URL: &url.URL{Scheme: "http", Host: strings.Repeat("ä", n)}, Header: http.Header{}}
			tr := &retryhttp.Transport{Base: unreachable{}}
			return func() { _, _ = tr.RoundTrip(req) }
		}},
	} {
		b.Run(row.name, func(b *testing.B) {
			for b.Loop() {
				does, tenfold := row.does(row.n), row.does(10*row.n)
				once, more := least(b, does), least(b, tenfold)
				b.ReportMetric(once*1e6, "us/n")
				b.ReportMetric(more/once, "times/10n")
				most := 30.0
				if row.growth == square {
					most = 300
				}
				if more > most*once {
					b.Errorf("10 times %d takes %.0f times as long: %.2g s", row.n, more/once, more)
				}
			}
		})
	}
}

type wrapping struct{ error }

func (w *wrapping) Unwrap() error { return w.error }

type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) { return nil, errDial }

func nested(ctx context.Context, n int) context.Context {
	for range n {
		ctx = retry.WithBudget(ctx, &retry.Budget{Size: 1000})
	}
	return ctx
}

// The function `least` measures five times how many seconds of CPU f takes, and returns the
// smallest result.
func least(b *testing.B, f func()) (seconds float64) {
	for range 5 {
		times, began := 0, cpu(b)
		for cpu(b)-began < 5*time.Millisecond {
			f()
			times++
		}
		took := (cpu(b) - began).Seconds() / float64(times)
		if seconds == 0 || took < seconds {
			seconds = took
		}
	}
	return seconds
}

// The function `cpu` returns the CPU time of this process.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
