//go:build retrytwice && !plan9

package twice_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/httpfault"
	"github.com/goretry/retry/retrynet"
	"github.com/goretry/retry/retrysql"
	"github.com/goretry/retry/retrytest"
)

func init() {
	if os.Getenv("RETRY_TWICE") == "" {
		os.Setenv("RETRY_TWICE", "1,123") // each success is lost that may be
	}
}

var (
	errBoom = errors.New("boom")
	three   = retry.Policy{MaxAttempts: 3}
	never   = retry.Policy{MaxAttempts: 3, RetryIf: func(error) bool { return false }}
)

func TestWhatIsRepeated(t *testing.T) {
	final := &retry.Class{NonRetryable: true}
	within := func(wait time.Duration) retry.Policy {
		return retry.Policy{MaxElapsed: 3 * time.Second, Backoff: retry.Fixed(wait)}
	}
	for _, row := range []struct {
		name   string
		policy retry.Policy
		fails  []error // then it succeeds; each run takes 2 s
		runs   int
	}{
		{"a success", three, nil, 2},
		{"a success after a failure", three, []error{errBoom}, 3},
		{"only one success", three, []error{nil, errBoom}, 3},
		{"there is time for a retry", within(time.Second), nil, 2},
		{"there is none", within(2 * time.Second), nil, 1},
		{"each run has the AttemptTimeout", retry.Policy{MaxAttempts: 3, AttemptTimeout: 3 * time.Second}, nil, 2},
		{"no limit", retry.Policy{}, nil, 1},
		{"the last attempt", three, []error{errBoom, errBoom}, 3},
		{"NonRetryable", retry.Policy{MaxAttempts: 3, NonRetryable: true}, nil, 1},
		{"an invalid policy", retry.Policy{MaxAttempts: 3, MaxDelay: -1}, nil, 1},
		{"a RetryIf that says no", never, nil, 1},
		{"a RetryIf for the network", retry.Policy{MaxAttempts: 3, RetryIf: retrynet.Transient}, nil, 2},
		{"a RetryIf for one error", retry.Policy{MaxAttempts: 3, RetryIf: func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }}, nil, 2},
		{"a class that is final", retry.Policy{MaxAttempts: 3, Classify: func(error) *retry.Class { return final }}, nil, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := 0
				v, err := retry.DoValue(t.Context(), row.policy, func(ctx context.Context) (int, error) {
					runs++
					time.Sleep(2 * time.Second)
					if runs <= len(row.fails) {
						return runs, row.fails[runs-1]
					}
					return runs, ctx.Err()
				})
				require.NoError(t, err)
				assert.Equal(t, []int{row.runs, row.runs}, []int{runs, v}, "runs, and the value of the last")
			})
		})
	}
}

func TestWhatIsNotRepeated(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	op := retrytest.NewOp()
	require.NoError(t, retry.Do(ctx, three, func(ctx context.Context) error { cancel(); return op.Run(ctx) }))
	assert.Equal(t, 1, op.Attempts(), "canceled")
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, retry.Do(soon, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Hour)}, op.Run))
	assert.Equal(t, 2, op.Attempts(), "the deadline is too close")
	empty := &retry.Budget{Size: 1}
	require.True(t, empty.Take())
	require.NoError(t, retry.Do(t.Context(), retry.Policy{MaxAttempts: 3, Budget: empty}, op.Run))
	assert.Equal(t, 3, op.Attempts(), "an empty Budget")
	require.NoError(t, retry.Do(retry.WithBudget(t.Context(), empty), three, op.Run))
	assert.Equal(t, 4, op.Attempts(), "an empty Budget of the context")
	_, err := retry.Once(t.Context(), three, retry.Attempt{}, op.Run)
	require.NoError(t, err)
	assert.Equal(t, 5, op.Attempts(), "Once")
	require.NoError(t, retry.Do(retrytest.NotTwice(t.Context()), three, func(ctx context.Context) error { return retry.Do(ctx, three, op.Run) }))
	assert.Equal(t, 6, op.Attempts(), "below NotTwice")
}

func TestASecondRunThatFailsFailsTheAttempt(t *testing.T) {
	op := retrytest.NewOp(nil, retry.Permanent(errBoom))
	v, err := retry.DoValue(t.Context(), three, func(ctx context.Context) (string, error) { return "lost", op.Run(ctx) })
	assert.EqualError(t, err, "retry: permanent error after 1 attempt: boom")
	assert.Empty(t, v)
}

func TestEventsAndBudgetsDoNotShowIt(t *testing.T) {
	var kinds []retry.EventKind
	p := retry.Policy{
		MaxAttempts: 3, Budget: &retry.Budget{Size: 5}, Backoff: retry.Fixed(time.Hour), Jitter: retry.FullJitter,
		Source:  func() uint64 { t.Error("Source is called"); return 1 },
		OnEvent: func(_ context.Context, e retry.Event) { kinds = append(kinds, e.Kind) },
	}
	require.NoError(t, retry.Do(t.Context(), p, retrytest.NewOp().Run))
	assert.Equal(t, []retry.EventKind{retry.AttemptStarted, retry.AttemptFinished, retry.CallFinished}, kinds)
	assert.Equal(t, 5, p.Budget.Left())
}

func TestRequests(t *testing.T) {
	// The number of each attempt, a ! if another failed before, and the body.
	sent := func(method, key string, body io.Reader, p retry.Policy) (sent string) {
		base := httpfault.New(roundTripper(func(req *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(req.Body)
			sent += string(body) + " "
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("answer"))}, err
		}))
		req, err := http.NewRequestWithContext(t.Context(), method, "http://shop.example", body)
		require.NoError(t, err)
		req.Header.Set(key, "key")
		_, err = (&retryhttp.Transport{Base: base, Policy: p, Prepare: func(_ *http.Request, n int, last error) error {
			if sent += fmt.Sprint(n); errors.Is(last, io.ErrUnexpectedEOF) {
				sent += "!"
			}
			return nil
		}}).RoundTrip(req)
		require.NoError(t, err)
		assert.Equal(t, 1, base.Open(), "the answer that was lost is closed")
		return sent
	}
	assert.Equal(t, "1data 2!data ", sent("PUT", "X", strings.NewReader("data"), three))
	assert.Equal(t, "1data ", sent("PUT", "X", io.MultiReader(strings.NewReader("data")), three), "a body that can be read once")
	assert.Equal(t, "1data ", sent("POST", "X", strings.NewReader("data"), three))
	assert.Equal(t, "1data 2!data ", sent("POST", "Idempotency-Key", strings.NewReader("data"), three))
	assert.Equal(t, "1data ", sent("PUT", "X", strings.NewReader("data"), never))
}

func TestATrailerIsNotUsedByTwoAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reading := 0
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			assert.Zero(t, reading)
			reading++
			go func() {
				time.Sleep(time.Millisecond)
				reading--
				_ = req.Body.Close()
			}()
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		})
		req, err := http.NewRequestWithContext(t.Context(), "PUT", "http://shop.example", strings.NewReader("data"))
		require.NoError(t, err)
		req.Trailer = http.Header{"Sum": nil}
		_, err = (&retryhttp.Transport{Base: base, Policy: three}).RoundTrip(req)
		require.NoError(t, err)
		time.Sleep(time.Second)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestATransactionIsRolledBackAndRunAgain(t *testing.T) {
	done := func(outer, p retry.Policy, commit error) (done string) {
		err := retry.Do(t.Context(), outer, func(ctx context.Context) error {
			return retrysql.TxFunc(ctx, func(_ context.Context, body func(int) error) error {
				if err := body(0); err != nil {
					done += "rollback "
					return fmt.Errorf("transact: %w", err)
				}
				done += "commit "
				return commit
			}, p, func(context.Context, int) error { return nil })
		})
		assert.NotContains(t, fmt.Sprint(err), "2 attempts")
		assert.ErrorIs(t, err, commit)
		return done
	}
	once, asked := retry.Policy{}, 0
	second := retry.Policy{MaxAttempts: 3, RetryIf: func(error) bool { asked++; return asked == 2 }}
	assert.Equal(t, "rollback commit ", done(once, three, nil))
	assert.Equal(t, "rollback commit ", done(once, three, errBoom), "a commit that fails")
	assert.Equal(t, "commit ", done(once, never, nil))
	assert.Equal(t, "commit ", done(once, second, nil), "a RetryIf that changes its mind")
	assert.Equal(t, "commit commit ", done(three, once, nil), "a loop around it repeats the commit")
}

func TestPlace(t *testing.T) {
	transact := func(_ context.Context, body func(int) error) error { return body(0) }
	_, _, line, _ := runtime.Caller(0)
	require.NoError(t, retrysql.TxFunc(t.Context(), transact, three, func(context.Context, int) error { return nil }))
	fmt.Println("line", line+1)
}

// TestPlace and TestReplay are what TestSettings runs in other processes. Each literal is another call;
// another line is not.
func TestReplay(t *testing.T) {
	op := retrytest.NewOp()
	do := func() error { return retry.Do(t.Context(), three, op.Run) }
	for i, call := range []func(){
		func() { require.NoError(t, do()) },
		func() { require.NoError(t, do()) },
		func() { require.NoError(t, do()) },
		func() {
			require.NoError(t, do())
			require.NoError(t, do())
		},
	} {
		before := op.Attempts()
		call()
		fmt.Print(i, ":", op.Attempts()-before, " ")
	}
}

func TestSettings(t *testing.T) {
	executable, err := os.Executable()
	require.NoError(t, err)
	with := func(setting, test string) (repeated, announced string) {
		var stdout, stderr strings.Builder
		process := exec.CommandContext(t.Context(), executable, "-test.run=^"+test+"$")
		process.Env, process.Stdout, process.Stderr = append(os.Environ(), "RETRY_TWICE="+setting), &stdout, &stderr
		_ = process.Run()
		return stdout.String(), stderr.String()
	}
	line, announced := with("1,2", "TestPlace")
	number, _, _ := strings.Cut(strings.TrimPrefix(line, "line "), "\n")
	assert.Equal(t, "retrytwice: seed 2, share 1: repeats attempt 1 of the call at twice_test.go:"+number+"; RETRY_TWICE=1,2\n", announced)
	all, announced := with("1", "TestReplay")
	assert.Equal(t, "0:2 1:2 2:2 3:4 PASS\n", all)
	assert.Regexp(t, `^retrytwice: seed \d{1,6}, share 1: repeats attempt 1 of the call at twice_test\.go:\d+; RETRY_TWICE=1,\d{1,6}\n$`, announced)
	seeds := map[string]bool{}
	for _, seed := range []string{"1", "2", "3", "4"} {
		half, _ := with("0.5,"+seed, "TestReplay")
		assert.Regexp(t, `^0:[12] 1:[12] 2:[12] 3:[24] PASS\n$`, half)
		again, _ := with("0.5,"+seed, "TestReplay")
		assert.Equal(t, half, again)
		seeds[half] = true
	}
	assert.Greater(t, len(seeds), 1, "another seed repeats other calls")
	for _, wrong := range []string{"2", "-1", "NaN", "yes", "0.2,", "0.2,-1"} {
		_, panicked := with(wrong, "TestReplay")
		assert.Contains(t, panicked, fmt.Sprintf(`RETRY_TWICE is %q: write a share from 0 to 1 and a seed, such as 0.2,123`, wrong))
	}
}
