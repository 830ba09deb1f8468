package docs_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"expvar"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/httpfault"
	"github.com/goretry/retry/retryhttp/sse"
	"github.com/goretry/retry/retryjob"
	"github.com/goretry/retry/retrylog"
	"github.com/goretry/retry/retrynet"
	"github.com/goretry/retry/retrysql"
	"github.com/goretry/retry/retrysql/sqlfault"
	"github.com/goretry/retry/retrytest"
)

// These tests run the snippets of docs/recipes.md against functions and servers that fail. The
// snippets for YAML, language models, gRPC and controllers are in integration/yamltest,
// integration/llmtest and the adapters.

// logTo sends the output of slog to a buffer while a test runs.
func logTo(t *testing.T, out *bytes.Buffer) {
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(out, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
}

func TestRecipeHTTP(t *testing.T) {
	get := func(t *testing.T, faults ...httpfault.Fault) string {
		var out bytes.Buffer
		logTo(t, &out)
		network(t, server(faults...))
		ctx, policy := t.Context(), retry.Default()
		req, err := http.NewRequest("GET", "http://example.test/orders", nil)
		require.NoError(t, err)

		policy.AttemptTimeout = 2 * time.Second // until the headers arrive: if the server hangs, this attempt fails
		client := &http.Client{Transport: &retryhttp.Transport{Policy: policy}}

		ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // for all attempts, all waits and the reading of the body
		defer cancel()
		resp, err := client.Do(req.WithContext(ctx))
		if err == nil {
			defer resp.Body.Close()
			err = retryhttp.ErrorOf(resp) // nil if resp is not a failure
		}
		if err != nil {
			slog.Error("no orders", "reason", retry.ReasonOf(err), "err", err)
		}

		return out.String()
	}
	busy, hang := httpfault.Status(503, 0), httpfault.Slow(time.Hour, nil)
	for _, row := range []struct {
		name, logged string
		faults       []httpfault.Fault
	}{
		{"a server that comes back", "", []httpfault.Fault{busy, hang, busy}},
		{"a server that answers 503", "attempts exhausted after 5 attempts", []httpfault.Fault{busy, busy, busy, busy, busy, busy}},
		{"a server that hangs", "reason=deadline", []httpfault.Fault{hang, hang, hang, hang, hang, hang}},
		{"a server that asks for a long wait", "reason=retry_after_too_long", []httpfault.Fault{httpfault.Status(503, time.Hour)}},
		{"a page that does not exist", "reason=permanent_error", []httpfault.Fault{httpfault.Status(404, 0)}},
	} {
		bubble(t, row.name, func(t *testing.T) {
			logged := get(t, row.faults...)
			assert.Contains(t, logged, row.logged)
			assert.Equal(t, row.logged == "", logged == "")
		})
	}
}

func TestRecipeHedge(t *testing.T) {
	slow := func(req *http.Request, _ http.RoundTripper) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	ok := httpfault.Status(200, 0)
	for _, row := range []struct {
		name   string
		faults []httpfault.Fault
		won    string
	}{
		{"all are fast", []httpfault.Fault{ok}, "{}"},
		{"one is slow", []httpfault.Fault{slow, ok}, `{"true": 1}`},
		{"the second is no better", []httpfault.Fault{httpfault.Slow(60*time.Millisecond, ok), slow}, `{"false": 1}`},
	} {
		bubble(t, row.name, func(t *testing.T) {
			network(t, server(row.faults...))
			policy, hedges := retry.Default(), new(expvar.Map)

			client := &http.Client{Transport: &retryhttp.Transport{
				Policy: policy,
				Base: &retryhttp.Hedge{
					After: 50 * time.Millisecond, // longer than 95 % of the answers take
					OnHedge: func(_ context.Context, won bool) {
						hedges.Add(strconv.FormatBool(won), 1) // an expvar.Map
					},
				},
			}}

			began := time.Now()
			resp, err := client.Get("http://example.test/orders")
			require.NoError(t, err)
			assert.NoError(t, resp.Body.Close())
			assert.LessOrEqual(t, time.Since(began), 60*time.Millisecond)
			assert.Equal(t, row.won, hedges.String())
		})
	}
}

func TestRecipeTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy, errDown, began := retry.Policy{MaxAttempts: 3, Backoff: retry.Linear(time.Second)}, errDial, time.Now()
		policy.Jitter = retry.Proportional(0.2)

		curve := policy
		curve.Jitter = nil
		retrytest.Schedule(t, curve, time.Second, 2*time.Second) // these two delays, and then no retry
		retrytest.Table(t, policy, []retrytest.Row{
			{Attempts: 1, Eligible: true, Lo: 800 * time.Millisecond, Hi: 1200 * time.Millisecond}, // the jitter window
			{Attempts: 1, Eligible: true, Err: retry.Permanent(errDown), Reason: retry.ReasonPermanent},
			{Attempts: 3, Err: errDown, Reason: retry.ReasonExhausted},
		})
		op := retrytest.NewOp(errDown, errDown, nil) // fails twice
		err := retry.Do(t.Context(), retrytest.NoWait(policy), op.Run)

		require.NoError(t, err)
		assert.Equal(t, 3, op.Attempts())
		assert.Zero(t, time.Since(began))
	})
}

func TestRecipeWaitUntilAServiceIsUp(t *testing.T) {
	for _, row := range []struct {
		name string
		up   time.Duration
		want retry.Reason
	}{
		{"after 90 s", 90 * time.Second, retry.ReasonSuccess},
		{"too late", 3 * time.Minute, retry.ReasonElapsed},
	} {
		bubble(t, row.name, func(t *testing.T) {
			began, url := time.Now(), "http://api.test"
			network(t, roundTripper(func(req *http.Request) (*http.Response, error) {
				if time.Since(began) < row.up {
					return nil, syscall.ECONNREFUSED
				}
				return &http.Response{StatusCode: 200, Body: http.NoBody, Request: req}, nil
			}))
			waiting := &http.Client{Transport: &retryhttp.Transport{
				Budgets: retryhttp.NoBudgets, // only one caller retries, so retries cannot add up
				Policy: retry.Policy{
					MaxElapsed:     2 * time.Minute,
					AttemptTimeout: 5 * time.Second,
					Backoff:        retry.Fixed(time.Second),
					Jitter:         retry.Proportional(0.2), // replicas that start together ask at different times
				},
			}}
			resp, err := retryhttp.Result(waiting.Get(url + "/healthz"))
			assert.Equal(t, row.want, retry.ReasonOf(err))
			assert.Equal(t, err == nil, resp != nil && time.Since(began) >= row.up)
		})
	}
}

func TestRecipePoll(t *testing.T) {
	errNotReady := errors.New("not ready yet")
	poll := func(ctx context.Context, check func(context.Context) (string, error)) (string, error) {
		poll := retry.Policy{
			MaxElapsed:     10 * time.Minute,
			AttemptTimeout: 5 * time.Second,
			Backoff:        retry.Fixed(time.Second),
			RetryIf: func(err error) bool { // any other error ends the poll
				return errors.Is(err, errNotReady) || errors.Is(err, context.DeadlineExceeded)
			},
		}
		state, err := retry.DoValue(ctx, poll, check) // func check(context.Context) (string, error)

		return state, err
	}
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for _, row := range []struct {
		name   string
		checks []func(context.Context) error // the checks in order; the last check repeats
		within time.Duration                 // the deadline of ctx; 0 means none
		reason retry.Reason
		took   time.Duration
	}{
		{"ready at last", []func(context.Context) error{failWith(errNotReady), failWith(errNotReady), failWith(nil)}, 0, retry.ReasonSuccess, 2 * time.Second},
		{"a check that hangs", []func(context.Context) error{failWith(errNotReady), hang, failWith(nil)}, 0, retry.ReasonSuccess, 7 * time.Second},
		{"another error", []func(context.Context) error{failWith(errNotReady), failWith(errBoom)}, 0, retry.ReasonRejected, time.Second},
		{"never ready", []func(context.Context) error{failWith(errNotReady)}, 0, retry.ReasonElapsed, 10 * time.Minute},
		{"checks that always hang", []func(context.Context) error{hang}, 0, retry.ReasonElapsed, 10*time.Minute + 5*time.Second},
		{"a hard end", []func(context.Context) error{hang}, 9 * time.Second, retry.ReasonDeadline, 9 * time.Second},
	} {
		bubble(t, row.name, func(t *testing.T) {
			ctx, began, checks := t.Context(), time.Now(), row.checks
			if row.within > 0 {
				ctx = within(ctx, row.within, nil)
			}
			_, err := poll(ctx, func(ctx context.Context) (string, error) {
				check := checks[0]
				checks = checks[min(1, len(checks)-1):]
				return "done", check(ctx)
			})
			assert.Equal(t, row.reason, retry.ReasonOf(err))
			assert.Equal(t, row.took, time.Since(began))
		})
	}
}

func TestRecipeAttemptNumberAndLastValue(t *testing.T) {
	errNotReady := errors.New("not ready yet")
	answer := func(state string, err error) func() (string, error) {
		return func() (string, error) { return state, err }
	}
	hang := answer("", context.DeadlineExceeded)
	for _, row := range []struct {
		name   string
		checks []func() (string, error)
		err    string
	}{
		{"ready at once", []func() (string, error){answer("done", nil)}, ""},
		{"ready after a pending check", []func() (string, error){answer("pending", errNotReady), answer("done", nil)}, ""},
		{"the value of the last check", []func() (string, error){answer("queued", errNotReady), answer("pending", errNotReady)}, `the last state is "pending"`},
		{"a last check without a value", []func() (string, error){answer("pending", errNotReady), hang}, `the last state is "pending"`},
		{"no value at all", []func() (string, error){hang, hang}, `the last state is ""`},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out bytes.Buffer
			logTo(t, &out)
			ctx, poll, checks := t.Context(), retry.Policy{MaxAttempts: 2}, row.checks
			check := func(context.Context) (string, error) {
				next := checks[0]
				checks = checks[1:]
				return next()
			}
			err := func() error {
				attempt, last := 0, ""
				err := retry.Do(ctx, poll, func(ctx context.Context) error {
					attempt++
					state, err := check(ctx) // such as "pending" and errNotReady
					slog.Info("checked", "attempt", attempt, "state", state)
					if state != "" {
						last = state
					}
					return err
				})
				if err != nil {
					return fmt.Errorf("the last state is %q: %w", last, err)
				}
				return nil
			}()

			assert.Empty(t, checks)
			for i := range row.checks {
				assert.Contains(t, out.String(), fmt.Sprintf(" attempt=%d ", i+1))
			}
			assert.Equal(t, len(row.checks), strings.Count(out.String(), "msg=checked"))
			if row.err == "" {
				require.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, row.err)
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, len(row.checks), e.Attempts)
		})
	}
}

// The page lists the text and the Go name of each reason.
func TestEveryReasonIsOnThePageWhatToWatch(t *testing.T) {
	page, err := os.ReadFile("docs/what-to-watch.md")
	require.NoError(t, err)
	source, err := os.ReadFile("errors.go")
	require.NoError(t, err)
	reasons := regexp.MustCompile(`\t(Reason\w+) +Reason = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(reasons), 10)
	for _, r := range reasons[1:] { // without ReasonRetry
		assert.Contains(t, string(page), "\n| `"+r[2]+"` | `"+r[1]+"` |")
	}
	assert.Len(t, regexp.MustCompile("(?m)^\\| `\\w+` \\| `Reason").FindAllString(string(page), -1), len(reasons)-1, "the page lists no other reason")
	assert.Len(t, regexp.MustCompile("(?m)^\\| `invalid` .*\\| a bug").FindAllString(string(page), -1), 1)
}

func TestRecipeReconnect(t *testing.T) {
	connect := func(ctx context.Context, serve func(context.Context) error) error {
		reconnect := retry.Policy{
			MaxAttempts:  retry.Unlimited,
			Backoff:      retry.Exponential{Base: time.Second},
			MaxDelay:     time.Minute,
			Jitter:       retry.FullJitter, // clients that lose the same server reconnect at different times
			HealthyAfter: time.Minute,      // after a connection that lasted this long, the delays start again with the first

			MaxRetryAfter: 24 * time.Hour, // the longest wait that a server may ask for; if not set, a minute
		}
		err := retry.Do(ctx, reconnect, serve) // returns when ctx is done, and after the three errors below

		return err
	}
	empty := func(ctx context.Context) context.Context { return retry.WithBudget(ctx, &retry.Budget{}) }
	inside := func(ctx context.Context, err error) error {
		return retry.Do(ctx, retry.Policy{MaxAttempts: 2}, failWith(err))
	}
	for _, row := range []struct {
		name   string
		ctx    func(context.Context) context.Context
		serve  func(context.Context) error
		reason retry.Reason
	}{
		{"permanent", nil, failWith(retry.Permanent(errBoom)), retry.ReasonPermanent},
		{"permanent, and Unwrap changes nothing", nil, failWith(retry.Unwrap(retry.Permanent(errBoom))), retry.ReasonPermanent},
		{"permanent in an inner Do", nil, func(ctx context.Context) error { return inside(ctx, retry.Permanent(errBoom)) }, retry.ReasonPermanent},
		{"permanent in an inner Do, and then Unwrap", nil, func(ctx context.Context) error { return retry.Unwrap(inside(ctx, retry.Permanent(errBoom))) }, retry.ReasonDeadline},
		{"a wait of a day", nil, failWith(retry.After(24*time.Hour, errBoom)), retry.ReasonDeadline},
		{"a wait of more than a day", nil, failWith(retry.After(25*time.Hour, errBoom)), retry.ReasonRetryAfter},
		{"an empty budget", empty, failWith(errBoom), retry.ReasonBudget},
	} {
		bubble(t, row.name, func(t *testing.T) {
			ctx := within(t.Context(), time.Hour, nil)
			if row.ctx != nil {
				ctx = row.ctx(ctx)
			}
			assert.Equal(t, row.reason, retry.ReasonOf(connect(ctx, row.serve)))
		})
	}
	bubble(t, "a hundred clients lose their server after an hour", func(t *testing.T) {
		back := make(chan time.Duration, 100)
		began := time.Now()
		for range cap(back) {
			go func() {
				ctx, cancel := context.WithCancel(t.Context())
				attempts := 0
				err := connect(ctx, func(context.Context) error {
					switch attempts++; attempts {
					case 5: // the first four fail, with growing delays
						time.Sleep(time.Hour - time.Since(began))
					case 6:
						back <- time.Since(began) - time.Hour
						cancel()
					}
					return errDial
				})
				assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
			}()
		}
		var waits []time.Duration
		for range cap(back) {
			waits = append(waits, <-back)
		}
		slices.Sort(waits)
		assert.LessOrEqual(t, waits[99], time.Second, "the first delay again")
		assert.Less(t, waits[0], 300*time.Millisecond)
		assert.Greater(t, waits[99], 700*time.Millisecond)
		assert.Greater(t, len(slices.Compact(waits)), 95, "the clients reconnect at different times")
		synctest.Wait()
	})
	bubble(t, "without HealthyAfter the seventh loss is followed by up to a minute", func(t *testing.T) {
		p := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Base: time.Second}, MaxDelay: time.Minute, Jitter: retry.FullJitter}
		assert.Equal(t, 32*time.Second, p.Next(retry.Attempt{Number: 6, Took: 24 * time.Hour}).Hi)
		assert.Equal(t, time.Minute, p.Next(retry.Attempt{Number: 7, Took: 24 * time.Hour}).Hi)
	})
	bubble(t, "a server that is down is not asked more and more often", func(t *testing.T) {
		attempts := 0
		err := connect(within(t.Context(), time.Hour, nil), fails(&attempts))
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
		assert.InDelta(t, 120, attempts, 40, "in an hour, by delays of up to a minute")
	})
}

// A refusedError is the error of a 401, with the Authorization header that was refused.
type refusedError struct {
	*retryhttp.StatusError
	authorization string
}

func (e *refusedError) Unwrap() error { return e.StatusError }

// A tokenSource keeps a header, such as "Bearer eyJ...", until a server refuses it.
type tokenSource struct {
	mu            sync.Mutex
	authorization string
	fetch         func(context.Context) (string, error)
}

// get returns a header that is not the refused one.
func (s *tokenSource) get(ctx context.Context, refused string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.authorization == refused { // before the first fetch both are ""
		fetched, err := s.fetch(ctx)
		if err != nil {
			return "", err
		}
		s.authorization = fetched
	}
	return s.authorization, nil
}

func TestRecipeToken(t *testing.T) {
	// through returns a client whose tokens are "1", "2" ..., and how many it has fetched.
	through := func(t *testing.T, base http.RoundTripper) (_ *http.Client, fetched *int) {
		policy, fetches := retry.Default(), 0
		fetch := func(context.Context) (string, error) { fetches++; return strconv.Itoa(fetches), nil }
		network(t, base)

		const api = "api.example.com"
		tokens := &tokenSource{fetch: fetch} // func fetch(context.Context) (string, error)
		policy.Classify = func(err error) *retry.Class {
			if errors.As(err, new(*refusedError)) {
				return &retry.Class{Name: "unauthorized", MaxAttempts: 2}
			}
			return nil
		}
		client := &http.Client{Transport: &retryhttp.Transport{
			Policy: policy,
			Check: func(req *http.Request, resp *http.Response, err error) error {
				if err == nil && resp.StatusCode == http.StatusUnauthorized && req.URL.Host == api {
					return &refusedError{retryhttp.NewStatusError(resp), req.Header.Get("Authorization")}
				}
				return retryhttp.Check(req, resp, err)
			},
			Prepare: func(req *http.Request, attempt int, last error) error {
				if req.URL.Host != api { // the host of a redirect must not get the token
					return nil
				}
				refused := ""
				if e := (*refusedError)(nil); errors.As(last, &e) {
					refused = e.authorization
				}
				authorization, err := tokens.get(req.Context(), refused)
				req.Header.Set("Authorization", authorization)
				return err
			},
		}}

		return client, &fetches
	}
	busy, refused := httpfault.Status(503, 0), httpfault.Status(401, 0)
	for _, row := range []struct {
		name   string
		faults []httpfault.Fault
		tokens []string // the tokens of the attempts
		status int
	}{
		{"after two 503", []httpfault.Fault{busy, busy, refused, busy}, []string{"1", "1", "1", "2", "2"}, 200},
		{"once", []httpfault.Fault{refused, refused, busy}, []string{"1", "2"}, 401},
		{"not after the last attempt", []httpfault.Fault{busy, busy, busy, busy, refused}, []string{"1", "1", "1", "1", "1"}, 401},
	} {
		bubble(t, row.name, func(t *testing.T) {
			s := server(row.faults...)
			client, _ := through(t, s)
			resp, err := client.Get("http://api.example.com/orders")
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, row.status, resp.StatusCode)
			var got []string
			for _, call := range s.Calls() {
				got = append(got, call.Header.Get("Authorization"))
			}
			assert.Equal(t, row.tokens, got)
			if row.status == 401 {
				var e *retry.Error
				require.ErrorAs(t, retryhttp.ErrorOf(resp), &e)
				assert.Equal(t, "unauthorized", e.Class)
			}
		})
	}
	bubble(t, "twenty calls with one token that has expired", func(t *testing.T) {
		client, fetched := through(t, roundTripper(func(req *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			if req.Header.Get("Authorization") == "1" {
				return refused(req, nil)
			}
			return answers{}.RoundTrip(req)
		}))
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() {
				resp, err := client.Get("http://api.example.com/orders")
				if assert.NoError(t, err) {
					assert.Equal(t, 200, resp.StatusCode)
				}
			})
		}
		calls.Wait()
		assert.Equal(t, 2, *fetched, "the first token, and one new token")
	})
	bubble(t, "a redirect to another host", func(t *testing.T) {
		var got []string
		client, _ := through(t, roundTripper(func(req *http.Request) (*http.Response, error) {
			got = append(got, req.URL.Host+" "+req.Header.Get("Authorization"))
			resp, err := answers{}.RoundTrip(req)
			if req.URL.Host == "api.example.com" {
				resp.StatusCode, resp.Header = http.StatusFound, http.Header{"Location": {"http://storage.test/17"}}
			}
			return resp, err
		}))
		resp, err := client.Get("http://api.example.com/orders")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, []string{"api.example.com 1", "storage.test "}, got)
	})
}

func TestRecipeGate(t *testing.T) {
	refusals := func(t *testing.T, client *http.Client) int64 {
		var refused atomic.Int64
		began := time.Now()
		network(t, roundTripper(func(req *http.Request) (*http.Response, error) {
			if time.Since(began) < 2*time.Second {
				refused.Add(1)
				return httpfault.Status(429, 2*time.Second)(req, nil)
			}
			return answers{}.RoundTrip(req)
		}))
		done := make(chan error)
		for i := range 20 {
			go func() {
				time.Sleep(time.Duration(i) * 50 * time.Millisecond)
				resp, err := client.Get("http://example.test/orders")
				if err == nil && resp.StatusCode != 200 {
					err = errors.New(resp.Status)
				}
				done <- err
			}()
		}
		for range 20 {
			require.NoError(t, <-done)
		}
		return refused.Load()
	}
	policy := retry.Default()
	bubble(t, "with a gate", func(t *testing.T) {
		client := &http.Client{Transport: &retryhttp.Transport{Policy: policy, Gate: new(retryhttp.Gate)}}

		assert.EqualValues(t, 1, refusals(t, client))
	})
	bubble(t, "without one", func(t *testing.T) {
		assert.EqualValues(t, 20, refusals(t, &http.Client{Transport: &retryhttp.Transport{Policy: policy, Budgets: retryhttp.NoBudgets}}))
	})
	bubble(t, "RetryAfterExact, and jitter without it", func(t *testing.T) {
		policy.Jitter = retry.FullJitter
		busy := retry.Attempt{Number: 1, Err: retry.After(10*time.Second, errDial)}
		assert.Equal(t, 20*time.Second-5*time.Second, policy.Next(busy).Hi, "the spread is at most MaxDelay")
		policy.RetryAfter = retry.RetryAfterExact
		assert.Equal(t, 10*time.Second, policy.Next(busy).Hi)
	})
}

func TestRecipeLongRetryAfter(t *testing.T) {
	for _, row := range []struct {
		name           string
		asks, deadline time.Duration
		took           time.Duration
		reason         retry.Reason
	}{
		{"an hour", time.Hour, time.Minute, 0, retry.ReasonRetryAfter},
		{"the longest wait that is allowed", 5 * time.Second, time.Minute, 5 * time.Second, retry.ReasonSuccess},
		{"longer than the time until the deadline", 5 * time.Second, 2 * time.Second, 0, retry.ReasonDeadline},
	} {
		bubble(t, row.name, func(t *testing.T) {
			network(t, server(httpfault.Status(429, row.asks)))
			policy, later, began := everySecond, time.Duration(0), time.Now()
			req, err := http.NewRequestWithContext(within(t.Context(), row.deadline, nil), "GET", "http://example.test/", nil)
			require.NoError(t, err)
			reason := func() retry.Reason {
				policy.MaxRetryAfter = 5 * time.Second // if not set, a minute
				client := &http.Client{Transport: &retryhttp.Transport{Policy: policy}}
				resp, err := retryhttp.Result(client.Do(req))
				if retry.ReasonOf(err) == retry.ReasonRetryAfter { // the wait is longer than 5s; if it ends after the deadline: ReasonDeadline
					later = retry.RetryAfterOf(err) // such as 1h: call again after it, or tell your own caller
				}
				if err == nil {
					require.NoError(t, resp.Body.Close())
				}
				return retry.ReasonOf(err)
			}()
			assert.Equal(t, row.reason, reason)
			assert.Equal(t, row.took, time.Since(began))
			assert.Equal(t, row.reason == retry.ReasonRetryAfter, later == row.asks)
		})
	}
}

func TestRecipeAnotherHost(t *testing.T) {
	policy := retry.Default()
	bubble(t, "", func(t *testing.T) {
		var calls sync.Map // how many requests each host gets
		network(t, roundTripper(func(req *http.Request) (*http.Response, error) {
			var wire bytes.Buffer
			require.NoError(t, req.Write(&wire))
			sent, err := http.ReadRequest(bufio.NewReader(&wire))
			require.NoError(t, err)
			assert.Equal(t, req.URL.Host, sent.Host, "the header Host")
			n, _ := calls.LoadOrStore(sent.Host, new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
			w := httptest.NewRecorder()
			switch {
			case sent.Host == "a.internal:8080":
				time.Sleep(time.Millisecond) // until all nine requests have arrived
				return nil, errDial
			case sent.URL.Path == "/moved":
				http.Redirect(w, req, "/17", http.StatusFound)
			case sent.URL.Path == "/elsewhere":
				http.Redirect(w, req, "http://c.test/17", http.StatusFound)
			case sent.URL.Path == "/feed":
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, "data: "+sent.Host+"\n\n")
			}
			resp := w.Result()
			if sent.URL.Path == "/feed" && calls.CompareAndSwap("silent", sent.Host, "") {
				resp.Body = silent{req.Context()}
			}
			return resp, nil
		}))
		hosts := []string{"a.internal:8080", "b.internal:8080"} // the hosts of the service orders
		var turn atomic.Uint64
		host := func(turn uint64) string { return hosts[turn%uint64(len(hosts))] }
		client := &http.Client{Transport: &retryhttp.Transport{
			Policy: policy,
			Prepare: func(req *http.Request, _ int, _ error) error {
				if req.URL.Host == "orders" { // the host of a redirect is unchanged
					req.URL.Host, req.Host = host(turn.Load()), "" // if Host were not "", the header Host would be orders
				}
				return nil
			},
			Check: func(req *http.Request, resp *http.Response, err error) error {
				failure := retryhttp.Check(req, resp, err)
				canceled := req.Context().Err() == context.Canceled // by the caller
				if n := turn.Load(); failure != nil && !canceled && !retry.IsPermanent(failure) && req.URL.Host == host(n) {
					turn.CompareAndSwap(n, n+1) // once, however many attempts fail at that host
				}
				if resp != nil {
					resp.Request = req.WithContext(resp.Request.Context()) // its URL contains the host that answered
				}
				return failure
			},
		}}
		resp, err := client.Get("http://orders/17")

		require.NoError(t, err)
		assert.Equal(t, "http://b.internal:8080/17", resp.Request.URL.String())
		get := func(path, host string) {
			resp, err := client.Get("http://orders" + path)
			if assert.NoError(t, err) {
				assert.Equal(t, "http://"+host+"/17", resp.Request.URL.String())
			}
		}
		turn.Store(0)
		var nine sync.WaitGroup
		for range 9 {
			nine.Go(func() { get("/17", "b.internal:8080") })
		}
		nine.Wait()
		for range 20 {
			get("/moved", "b.internal:8080")
		}
		get("/elsewhere", "c.test")
		n, _ := calls.Load("a.internal:8080")
		assert.EqualValues(t, 1+9, n.(*atomic.Int64).Load(), "only the requests that were in flight when the host failed")

		client.Transport.(*retryhttp.Transport).StallTimeout = time.Second
		calls.Store("silent", "b.internal:8080")
		hosts[0] = "d.internal:8080"
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://orders/feed", nil)
		require.NoError(t, err)
		for event, err := range (&sse.Stream{Client: client, Policy: policy}).Events(req) {
			require.NoError(t, err)
			assert.Equal(t, "d.internal:8080", string(event.Data), "a host whose stream is silent has failed")
			break
		}
		assert.EqualValues(t, 2, turn.Load())
	})
}

// A silent body has no bytes until its context is done.
type silent struct{ context.Context }

func (s silent) Read([]byte) (int, error) { <-s.Done(); return 0, s.Err() }
func (silent) Close() error               { return nil }

// A billing is an API that refuses the first calls of a second.
type billing struct{ refused, charged atomic.Int64 }

func (b *billing) Charge(context.Context) error {
	if time.Since(time.Unix(946684800, 0)) < time.Second { // the time at which a bubble of synctest begins
		b.refused.Add(1)
		return retry.After(time.Second, errors.New("429 Too Many Requests"))
	}
	b.charged.Add(1)
	return nil
}

func TestRecipeGateOfAFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, policy := new(billing), retry.Default()
		var gate retry.Gate
		var calls sync.WaitGroup
		for i := range 20 {
			calls.Go(func() {
				ctx := t.Context()
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)

				charge := gate.Hold("billing", func(ctx context.Context) error {
					return client.Charge(ctx) // fails with retry.After(wait, err) if the server asks for a wait
				})
				err := retry.Do(ctx, policy, charge)

				assert.NoError(t, err)
			})
		}
		calls.Wait()
		assert.Equal(t, []int64{1, 20}, []int64{client.refused.Load(), client.charged.Load()})
	})
}

func TestRecipeBudgetOfARequest(t *testing.T) {
	ctx, lowest := t.Context(), 0 // README and recipes: three layers with four attempts each
	layer := func(below func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error { return retry.Do(ctx, retry.Policy{MaxAttempts: 4}, below) }
	}

	require.Error(t, layer(layer(layer(fails(&lowest))))(ctx))
	assert.Equal(t, 64, lowest)

	ctx = retry.WithBudget(ctx, &retry.Budget{Size: 3})

	require.Error(t, layer(layer(layer(fails(&lowest))))(ctx))
	assert.Equal(t, 64+1+3, lowest)
}

func TestRecipeBudgetsOfTargets(t *testing.T) {
	var budgets retry.Budgets
	policy, attempts := retry.Policy{MaxAttempts: 40}, 0
	call := func() error {
		budget, done := budgets.For("shard 7") // var budgets retry.Budgets
		defer done()
		policy.Budget = budget

		return retry.Do(t.Context(), policy, fails(&attempts))
	}
	assert.ErrorContains(t, call(), "retry budget exhausted after 11 attempts (for shard 7)")
	other, done := budgets.For("shard 8")
	defer done()
	assert.Equal(t, 10, other.Left())
}

func TestRecipeBudgetOfAProcess(t *testing.T) {
	policy, attempts := retry.Policy{MaxAttempts: 4}, 0

	budget := &retry.Budget{Size: 100, Ratio: 0.1}
	counters := new(retrylog.Counters)
	counters.WatchBudget("payments", budget)
	policy.Budget, policy.OnEvent = budget, counters.OnEvent

	left := func() int { return counters.Snapshot().Budgets["payments"] }
	assert.Equal(t, 100, left())
	for range 1000 {
		require.Error(t, retry.Do(t.Context(), policy, fails(&attempts)))
	}
	assert.Equal(t, 1000+100, attempts)
	assert.Equal(t, 0, left())
	assert.Contains(t, counters.String(), `"budgets":{"payments":0}`, "for expvar")
	for range 10 {
		require.NoError(t, retry.Do(t.Context(), policy, failWith(nil)))
	}
	assert.Equal(t, 1, left())
}

func TestRecipeLog(t *testing.T) {
	var out bytes.Buffer
	logTo(t, &out)
	policy := retry.Policy{MaxAttempts: 2}

	logged, counters := retrylog.Slog(slog.Default()), new(retrylog.Counters)
	policy.OnEvent = func(ctx context.Context, e retry.Event) { // e.Kind is retry.RetryScheduled for a retry
		logged(ctx, e)
		counters.OnEvent(ctx, e)
	}

	require.NoError(t, retry.Do(t.Context(), policy, failWith(nil)))
	assert.Empty(t, out.String(), "no retry was needed")
	require.ErrorIs(t, retry.Do(t.Context(), policy, failWith(errDial)), errDial)
	assert.Regexp(t, `(?s)^[^\n]*level=WARN[^\n]*attempt=1 [^\n]*connection refused"\n[^\n]*level=ERROR[^\n]*reason=attempts_exhausted[^\n]*\n$`, out.String())
	s := counters.Snapshot()
	assert.Equal(t, []int64{2, 1, 1}, []int64{s.Calls, s.Retries, s.Stops[retry.ReasonExhausted]})

	out.Reset()
	ctx, order, ship := t.Context(), struct{ ID string }{"order-42"}, failWith(errDial)

	err := retry.Do(retrylog.WithKey(ctx, order.ID), policy, ship)

	require.Error(t, err)
	assert.Equal(t, 2, strings.Count(out.String(), " key=order-42 "))
}

// These tests run the snippets of docs/queues.md.

func TestQueuesRun(t *testing.T) {
	type table struct {
		ID         string
		Attempts   int
		FirstRunAt time.Time
	}
	for _, tc := range []struct {
		name    string
		attempt int
		err     error
		stops   bool // the worker is shut down during the attempt
		want    string
	}{
		{"done", 1, nil, false, "done"},
		{"done, and the worker stops", 1, nil, true, "done"},
		{"again", 2, errDial, false, "again after 2s"},
		{"the worker stops", 1, errDial, true, "given back with 0"},
		{"the worker stops in the last attempt", 3, errDial, true, "given back with 2"},
		{"the last attempt", 3, errDial, false, "attempts_exhausted: retry: attempts exhausted after 3 attempts: " + errDial.Error()},
		{"a worker died in the last attempt", 4, errDial, false, "attempts_exhausted: retry: attempts exhausted after 3 attempts"},
		{"permanent", 1, retry.Permanent(errBoom), false, "permanent_error: retry: permanent error after 1 attempt: boom"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Linear(time.Second)}
			row, got := table{"mail-7", tc.attempt, time.Now()}, ""
			send := func(context.Context) error {
				if tc.stops {
					stop()
				}
				return tc.err
			}
			write := func(ctx context.Context, text string) { // a database also fails if the context is canceled
				if ctx.Err() == nil {
					got = text
				}
			}
			done := func(ctx context.Context, _ table) { write(ctx, "done") }
			runAgainAfter := func(ctx context.Context, _ table, d time.Duration) { write(ctx, "again after "+d.String()) }
			giveBack := func(ctx context.Context, _ table, attempts int) { write(ctx, fmt.Sprint("given back with ", attempts)) }
			bury := func(ctx context.Context, _ table, d retryjob.DeadLetter) { write(ctx, string(d.Reason)+": "+d.Err) }

			job := retryjob.Job{Key: row.ID, Attempt: row.Attempts, Began: row.FirstRunAt}
			retryjob.Run(ctx, policy, job, send, func(o retryjob.Outcome) {
				ctx := context.WithoutCancel(ctx) // a shutdown cancels ctx, and the result must still be written
				switch {
				case o.Err == nil:
					done(ctx, row)
				case o.Retry():
					runAgainAfter(ctx, row, o.Delay)
				case o.Interrupted(): // the worker is shutting down: the attempt does not count
					giveBack(ctx, row, job.Attempt-1)
				default:
					bury(ctx, row, o.DeadLetter(job))
				}
			})

			assert.Equal(t, tc.want, got)
		})
	}
}

func TestDeadLetterOfThePageIsRead(t *testing.T) {
	var d retryjob.DeadLetter
	require.NoError(t, d.UnmarshalJSON([]byte(fenced(t, "docs/queues.md", "json")[0])))
	written, err := d.MarshalJSON()
	require.NoError(t, err)
	assert.JSONEq(t, fenced(t, "docs/queues.md", "json")[0], string(written))
	assert.Equal(t, []any{"mail-7", retry.ReasonExhausted, 3}, []any{d.Key, d.Reason, d.Attempts})
}

func TestQueuesRedrive(t *testing.T) {
	options := retryjob.RedriveOptions{
		Window: time.Hour,
		Filter: func(d retryjob.DeadLetter) bool { return d.Reason == retry.ReasonExhausted }, // not permanent errors
	}

	assert.True(t, options.Filter(retryjob.DeadLetter{Reason: retry.ReasonExhausted}))
	assert.False(t, options.Filter(retryjob.DeadLetter{Reason: retry.ReasonPermanent}))
	at := retryjob.Spread("mail-7", options.Window)
	assert.Equal(t, at, retryjob.Spread("mail-7", options.Window), "the same moment each time")
	assert.NotEqual(t, at, retryjob.Spread("mail-8", options.Window))
	assert.Less(t, at, options.Window)
}

// These tests run the snippets of docs/coming-from.md.

func TestMovedFromCenkalti(t *testing.T) {
	var out bytes.Buffer
	log.SetOutput(&out)
	log.SetFlags(0)
	defer log.SetOutput(os.Stderr)
	defer log.SetFlags(log.LstdFlags)
	url, errFetch := "http://example.test", errors.New("refused")
	for _, row := range []struct {
		name    string
		ctx     func(context.Context) context.Context
		errs    []error
		retries int
		err     error
	}{
		{"success", endingIn(time.Hour, nil), []error{errFetch, errFetch, nil}, 2, nil},
		{"failure", endingIn(time.Hour, nil), []error{errFetch}, 3, errFetch},
		{"canceled in the wait", func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Millisecond, cancel)
			return ctx
		}, []error{errFetch}, 1, context.Canceled},
		{"a deadline in the wait", endingIn(time.Millisecond, nil), []error{errFetch}, 0, context.DeadlineExceeded},
	} {
		bubble(t, row.name, func(t *testing.T) {
			out.Reset()
			ctx, op := row.ctx(t.Context()), retrytest.NewOp(row.errs...)
			fetch := func(ctx context.Context, _ string) (string, error) { return retrytest.Value(op, "200 OK")(ctx) }

			policy := retry.Policy{
				MaxAttempts: 4,
				MaxElapsed:  15 * time.Minute, // the default of v5
				Backoff:     retry.Exponential{Base: 50 * time.Millisecond, Factor: 1.5},
				MaxDelay:    time.Minute,
				Jitter:      retry.Proportional(0.5),
				OnEvent: func(_ context.Context, e retry.Event) {
					if e.Kind == retry.RetryScheduled { // OnEvent is called for each attempt and for the end, too
						log.Println(e.Err, "again in", e.Delay)
					}
				},
			}
			status, err := retry.DoValue(ctx, policy, func(ctx context.Context) (string, error) { return fetch(ctx, url) })
			err = retry.Unwrap(err) // what v5 returned: nil, the error of fetch, or the error of ctx if ctx ended the call

			assert.Equal(t, row.err, err)
			assert.Equal(t, err == nil, status == "200 OK")
			assert.Equal(t, row.retries, strings.Count(out.String(), "refused again in"))
			retrytest.Table(t, policy, []retrytest.Row{
				{Attempts: 1, Eligible: true, Lo: 25 * time.Millisecond, Hi: 75 * time.Millisecond},
				{Attempts: 2, Eligible: true, Lo: 37500 * time.Microsecond, Hi: 112500 * time.Microsecond},
				{Attempts: 1, Eligible: true, Elapsed: 15 * time.Minute, Reason: retry.ReasonElapsed},
			})
		})
	}
}

func TestMovedFromSethvargo(t *testing.T) {
	policy, errBusy, d := retry.Policy{MaxAttempts: 5}, errors.New("busy"), 10*time.Millisecond

	policy.RetryIf = func(err error) bool { return errors.Is(err, errBusy) }

	policy.Backoff = retry.BackoffFunc(func(attempt int) time.Duration { return retry.Fibonacci(d).Delay(attempt + 1) })

	assert.Equal(t, retry.Schedule{d, 2 * d, 3 * d, 5 * d}, policy.Delays(4))
	assert.True(t, policy.Next(retry.Attempt{Number: 1, Err: errBusy}).Retry())
	assert.Equal(t, retry.ReasonRejected, policy.Next(retry.Attempt{Number: 1, Err: errDial}).Reason)
}

func TestMovedFromAgain(t *testing.T) {
	ctx, policy := t.Context(), retry.Policy{MaxAttempts: 5}
	for _, row := range []struct {
		again    bool
		err      error
		attempts int
	}{{false, nil, 1}, {true, nil, 1}, {false, errDial, 1}, {true, errDial, 5}} {
		attempts := 0
		attempt := func(context.Context) (bool, error) { attempts++; return row.again, row.err }

		err := retry.Do(ctx, policy, func(ctx context.Context) error {
			again, err := attempt(ctx)
			if !again {
				err = retry.Permanent(err) // nil stays nil
			}
			return err
		})

		assert.Equal(t, []any{row.err, row.attempts}, []any{retry.Unwrap(err), attempts})
	}
}

func TestMovedFromCondition(t *testing.T) {
	ctx, policy, errNotDone := t.Context(), retry.Policy{MaxAttempts: 5}, errors.New("not done")
	for _, row := range []struct {
		done     bool
		err      error
		last     error
		attempts int
	}{{true, nil, nil, 1}, {false, nil, errNotDone, 5}, {false, errDial, errDial, 1}} {
		attempts := 0
		condition := func(context.Context) (bool, error) { attempts++; return row.done, row.err }

		err := retry.Do(ctx, policy, func(ctx context.Context) error {
			done, err := condition(ctx)
			if err == nil && !done {
				return errNotDone // any error of yours: it is retried
			}
			return retry.Permanent(err)
		})

		assert.Equal(t, []any{row.last, row.attempts}, []any{retry.Unwrap(err), attempts})
	}
}

type upTo time.Duration // avast's MaxJitter

func (u upTo) Window(d time.Duration) (lo, hi time.Duration) {
	d = max(d, 0)
	return d, max(d, d+time.Duration(u)) // the sum may overflow
}

type upwards float64 // the Jitter of k8s: 0.2 is up to 20 % more

func (u upwards) Window(d time.Duration) (lo, hi time.Duration) {
	d = max(d, 0)
	return d, max(d, d+time.Duration(float64(u)*float64(d)))
}

type fromMin time.Duration // jpillora's Jitter, with its Min

func (m fromMin) Window(d time.Duration) (lo, hi time.Duration) {
	d = max(d, 0)
	return min(d, time.Duration(m)), d
}

func TestMovedJitter(t *testing.T) {
	for _, row := range []struct {
		jitter retry.Jitter
		lo, hi time.Duration // after two failures
	}{
		{upTo(10 * time.Millisecond), 40 * time.Millisecond, 50 * time.Millisecond},
		{upwards(0.2), 40 * time.Millisecond, 48 * time.Millisecond},
		{fromMin(20 * time.Millisecond), 20 * time.Millisecond, 40 * time.Millisecond},
	} {
		policy := retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Base: 20 * time.Millisecond}, Jitter: row.jitter}
		retrytest.Table(t, policy, []retrytest.Row{{Attempts: 2, Eligible: true, Lo: row.lo, Hi: row.hi}})
		retrytest.TestJitter(t, row.jitter)
	}
}

func TestRecipeBatch(t *testing.T) {
	policy, ctx, batch := everySecond, t.Context(), []string{"a", "b", "c"}
	var sent []string
	answers := []func([]string) ([]string, error){
		func(b []string) ([]string, error) { return b[1:], nil },
		func([]string) ([]string, error) { return nil, errDial },
		func([]string) ([]string, error) { return nil, nil },
	}
	put := func(_ context.Context, b []string) ([]string, error) {
		sent = append(sent, strings.Join(b, ""))
		return answers[len(sent)-1](b)
	}
	policy.Wait = retrytest.NoWait(policy).Wait

	err := retry.Do(ctx, policy, func(ctx context.Context) error {
		failed, err := put(ctx, batch) // func put(context.Context, []Item) (failed []Item, err error)
		if err != nil {
			return err // no item is known to have succeeded: send all again
		}
		if batch = failed; len(batch) > 0 {
			return fmt.Errorf("%d items failed, the first is %v", len(batch), batch[0])
		}
		return nil
	})

	require.NoError(t, err)
	assert.Equal(t, []string{"abc", "bc", "bc"}, sent)
	assert.Empty(t, batch)
}

func TestRecipeCommand(t *testing.T) {
	command := func(ctx context.Context, stderr io.Writer, download func(context.Context) error) int {
		policy := retrytest.NoWait(everySecond)

		ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
		defer stop()
		policy.OnEvent = func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				fmt.Fprintf(stderr, "attempt %d of %d: %v; again in %v\n", e.Attempt, e.Max, e.Err, e.Delay.Round(time.Millisecond))
			}
		}
		switch err := retry.Do(ctx, policy, download); retry.ReasonOf(err) {
		case retry.ReasonSuccess:
			return 0
		case retry.ReasonCanceled:
			return 130 // as a shell expects after Ctrl-C
		default:
			fmt.Fprintln(stderr, err)
			return 1
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, row := range []struct {
		ctx    context.Context
		err    error
		status int
		text   string
	}{
		{t.Context(), nil, 0, ""},
		{canceled, nil, 130, ""},
		{t.Context(), retry.Permanent(errBoom), 1, "retry: permanent error after 1 attempt: boom\n"},
		{t.Context(), errDial, 1, "attempt 1 of 3: dial tcp: connection refused; again in 1s\n" +
			"attempt 2 of 3: dial tcp: connection refused; again in 1s\n" +
			"retry: attempts exhausted after 3 attempts (2s waited): dial tcp: connection refused\n"},
	} {
		var stderr strings.Builder
		assert.Equal(t, row.status, command(row.ctx, &stderr, failWith(row.err)))
		assert.Equal(t, row.text, stderr.String())
	}
}

// An apiError is like an error of an SDK.
type apiError struct{ Status int }

func (e *apiError) Error() string { return http.StatusText(e.Status) }

func TestRecipeSDK(t *testing.T) {
	var policy retry.Policy

	policy.RetryIf = func(err error) bool {
		if e := (*apiError)(nil); errors.As(err, &e) { // such as *googleapi.Error or *stripe.Error
			return slices.Contains([]int{429, 500, 502, 503, 504}, e.Status)
		}
		return retrynet.Transient(err)
	}

	for err, retried := range map[error]bool{
		&apiError{429}: true, &apiError{503}: true, &apiError{501}: false, &apiError{400}: false, syscall.ECONNRESET: true, errBoom: false,
	} {
		assert.Equal(t, retried, policy.RetryIf(fmt.Errorf("charge: %w", err)), "%v", err)
	}
}

func TestRecipeByTheClock(t *testing.T) {
	for _, row := range []struct {
		status   int
		reason   retry.Reason
		attempts int
	}{{429, retry.ReasonElapsed, 601}, {503, retry.ReasonExhausted, 5}} {
		bubble(t, http.StatusText(row.status), func(t *testing.T) {
			policy := everySecond

			policy.MaxAttempts, policy.MaxElapsed = retry.Unlimited, 10*time.Minute
			others := &retry.Class{Name: "others", MaxAttempts: 5}
			policy.Classify = func(err error) *retry.Class {
				if e := (*retryhttp.StatusError)(nil); errors.As(err, &e) && e.StatusCode == http.StatusTooManyRequests {
					return nil // the policy's limits
				}
				return others
			}

			attempts := 0
			err := retry.Do(t.Context(), policy, func(context.Context) error {
				attempts++
				return &retryhttp.StatusError{StatusCode: row.status}
			})
			assert.Equal(t, []any{row.reason, row.attempts}, []any{retry.ReasonOf(err), attempts})
		})
	}
}

func TestRecipeDeadlineInAHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy, s := everySecond, server(httpfault.Status(503, 0))

		transport := &retryhttp.Transport{Policy: policy, Prepare: func(req *http.Request, attempt int, last error) error {
			if deadline, ok := req.Context().Deadline(); ok {
				req.Header.Set("X-Timeout-Ms", strconv.FormatInt(time.Until(deadline).Milliseconds(), 10))
			}
			return nil
		}}

		var left []string
		transport.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
			left = append(left, req.Header.Get("X-Timeout-Ms"))
			return s.RoundTrip(req)
		})
		req, err := http.NewRequestWithContext(within(t.Context(), 3*time.Second, nil), "GET", "http://example.test/", nil)
		require.NoError(t, err)
		_, err = retryhttp.Result(transport.RoundTrip(req))
		require.NoError(t, err)
		assert.Equal(t, []string{"3000", "2000"}, left)
	})
}

// The answer to the first attempt is lost. The server recognizes the second attempt by its key.
// bodies counts the responses of base whose bodies are open.
type bodies struct {
	base http.RoundTripper
	open atomic.Int64
}

func (b *bodies) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.base.RoundTrip(req)
	if err == nil {
		b.open.Add(1)
		resp.Body = &countedBody{resp.Body, sync.OnceFunc(func() { b.open.Add(-1) })}
	}
	return resp, err
}

type countedBody struct {
	io.ReadCloser
	onClose func()
}

func (b *countedBody) Close() error {
	b.onClose()
	return b.ReadCloser.Close()
}

func TestRecipePost(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		base := server(httpfault.After(nil))
		through := &bodies{base: base}
		client := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Default(), Base: through}}
		ctx, url, payment, id := t.Context(), "http://pay.test/payments", `{"amount": 5}`, "17"
		require.NoError(t, func() error {
			req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(payment))
			if err != nil {
				return err
			}
			req.Header.Set("Idempotency-Key", id) // the ID of the payment, not of the attempt
			resp, err := retryhttp.Result(client.Do(req))
			if err != nil {
				return err
			}
			return resp.Body.Close() // after reading the answer
		}())
		assert.Zero(t, through.open.Load())
		require.Len(t, base.Calls(), 2)
		for _, call := range base.Calls() {
			assert.Equal(t, []string{"17", payment}, []string{call.Header.Get("Idempotency-Key"), string(call.Body)})
		}
	})
}

func TestRecipeUpload(t *testing.T) {
	upload := func(ctx context.Context, client *http.Client, url string, file *os.File) error {
		req, err := http.NewRequestWithContext(ctx, "PUT", url, nil)
		if err == nil {
			err = retryhttp.SetBody(req, file, 0)
		}
		if err != nil {
			return err
		}
		resp, err := retryhttp.Result(client.Do(req)) // an error if the last attempt got a 503, too
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "report"))
	require.NoError(t, err)
	defer file.Close()
	_, err = file.WriteString("head: body")
	require.NoError(t, err)
	for _, row := range []struct {
		name   string
		faults []httpfault.Fault
		reason retry.Reason
	}{
		{"a server that comes back", []httpfault.Fault{httpfault.Status(503, 0), httpfault.Before(nil)}, retry.ReasonSuccess},
		{"a server that stays down", slices.Repeat([]httpfault.Fault{httpfault.Status(503, 0)}, 5), retry.ReasonExhausted},
	} {
		bubble(t, row.name, func(t *testing.T) {
			_, err := file.Seek(6, io.SeekStart)
			require.NoError(t, err)
			base := server(row.faults...)
			through := &bodies{base: base}
			client := &http.Client{Transport: &retryhttp.Transport{Base: through, Policy: retry.Default()}}
			assert.Equal(t, row.reason, retry.ReasonOf(upload(t.Context(), client, "http://example.test/report", file)))
			assert.Zero(t, through.open.Load())
			for i, call := range base.Calls() {
				assert.Equal(t, i != 1 || len(row.faults) > 2, string(call.Body) == "body", "request %d: %q", i, call.Body)
			}
		})
	}
}

// A readerFunc is a function in place of a body.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func TestRecipeDownload(t *testing.T) {
	text := strings.Repeat("0123456789", 1000)
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	serve := roundTripper(func(req *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, req, "data", time.Time{}, strings.NewReader(text))
		return w.Result(), nil
	})
	silent := func(req *http.Request, base http.RoundTripper) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		if err == nil {
			hang := readerFunc(func([]byte) (int, error) { <-req.Context().Done(); return 0, req.Context().Err() })
			resp.Body = io.NopCloser(io.MultiReader(io.LimitReader(resp.Body, 100), hang))
		}
		return resp, err
	}
	download := func(url, want string, file io.Writer, policy retry.Policy) error {
		client := &http.Client{Transport: &retryhttp.Transport{
			Policy:       policy,
			Resume:       true,
			StallTimeout: time.Minute, // without it, a connection that falls silent hangs until the deadline of the request
		}}
		resp, err := retryhttp.Result(client.Get(url))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		digest := sha256.New()
		if _, err := io.Copy(io.MultiWriter(file, digest), resp.Body); err != nil {
			return err // a *retryhttp.BrokenError says how many bytes arrived, and why the rest did not
		}
		if got := fmt.Sprintf("%x", digest.Sum(nil)); got != want {
			return fmt.Errorf("the digest of %s is %s, want %s", url, got, want)
		}
		return nil
	}
	for _, row := range []struct {
		name, want, says string
		faults           []httpfault.Fault
	}{
		{"the download breaks twice", digest, "", []httpfault.Fault{httpfault.InBody(100, nil), httpfault.InBody(2000, nil)}},
		{"the download falls silent", digest, "", []httpfault.Fault{silent}},
		{"the rest never arrives", digest, "the body broke after 100 bytes: ", append([]httpfault.Fault{httpfault.InBody(100, nil)}, slices.Repeat([]httpfault.Fault{httpfault.Status(503, 0)}, 5)...)},
		{"the data has another digest", "1234", "the digest of http://example.test/data is " + digest + ", want 1234", nil},
	} {
		bubble(t, row.name, func(t *testing.T) {
			network(t, httpfault.New(serve, row.faults...))
			var file bytes.Buffer
			err := download("http://example.test/data", row.want, &file, retry.Default())
			if row.says == "" {
				require.NoError(t, err)
				assert.Equal(t, text, file.String())
			} else {
				assert.ErrorContains(t, err, row.says)
			}
		})
	}
}

// The snippet finds a mistake in three programs whose state survives an attempt, and none in
// correct programs.
func TestRecipeMustNotRunTwice(t *testing.T) {
	type program struct {
		operation func(context.Context) error
		effect    func() string
		order     func(context.Context, *http.Client) error
		transfer  func(context.Context, *sql.DB) error
	}
	find := func(t testing.TB, p program, shop *store, bank *database) {
		ctx, operation, effect, order, transfer := t.Context(), p.operation, p.effect, p.order, p.transfer

		retrytest.Repeatable(t, func(ctx context.Context) (string, error) {
			err := operation(ctx)
			return effect(), err // effect must return the same after the second run
		})
		lost := httpfault.New(shop, httpfault.After(syscall.ECONNRESET)) // the server gets the order, and the answer is lost
		err := order(ctx, &http.Client{Transport: lost})
		assert.Equal(t, 1, shop.orders, "orders: %v", err)
		db := sql.OpenDB(sqlfault.New(bank, sqlfault.AfterCommit(io.ErrUnexpectedEOF))) // the COMMIT is done, and the answer is lost
		err = transfer(ctx, db)
		assert.Equal(t, 1, bank.commits, "commits: %v", err)

		require.NoError(t, db.Close())
	}
	post := func(ctx context.Context, client *http.Client, key string) error {
		req, err := http.NewRequestWithContext(ctx, "POST", "http://shop.test/orders", strings.NewReader("teapot"))
		if err != nil {
			return err
		}
		req.Header.Set("Idempotency-Key", key)
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	pay := func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 1")
		return err
	}
	for _, row := range []struct {
		name, found string
		plant       func(*program)
	}{
		{"nothing", "", func(*program) {}},
		{"a body that is read once", `the first run returned "teapot", and the second run ""`, func(p *program) {
			body, received := strings.NewReader("teapot"), ""
			p.effect = func() string { return received }
			p.operation = func(context.Context) error {
				text, err := io.ReadAll(body)
				received = string(text)
				return err
			}
		}},
		{"a key for each attempt", "orders: <nil>", func(p *program) {
			p.order = func(ctx context.Context, client *http.Client) error {
				keys := 0
				return retry.Do(ctx, everySecond, func(ctx context.Context) error {
					keys++
					return post(ctx, client, strconv.Itoa(keys))
				})
			}
		}},
		{"a loop around a transaction", "commits: <nil>", func(p *program) {
			p.transfer = func(ctx context.Context, db *sql.DB) error {
				return retry.Do(ctx, everySecond, func(ctx context.Context) error {
					tx, err := db.BeginTx(ctx, nil)
					if err != nil {
						return err
					}
					return errors.Join(pay(ctx, tx), tx.Commit()) //retry:vet-ignore txretry the mistake that this row finds
				})
			}
		}},
	} {
		bubble(t, row.name, func(t *testing.T) {
			p := program{
				operation: func(context.Context) error { return nil },
				effect:    func() string { return "" },
				order: func(ctx context.Context, client *http.Client) error {
					return retry.Do(ctx, everySecond, func(ctx context.Context) error { return post(ctx, client, "order 17") })
				},
				transfer: func(ctx context.Context, db *sql.DB) error { return retrysql.Tx(ctx, db, nil, everySecond, pay) },
			}
			row.plant(&p)
			found := &findings{TB: t}
			find(found, p, new(store), new(database))
			if row.found == "" {
				assert.Empty(t, found.texts)
			} else if assert.Len(t, found.texts, 1) {
				assert.Contains(t, found.texts[0], row.found)
			}
		})
	}
}

// findings is a testing.TB that keeps the failures of a test.
type findings struct {
	testing.TB
	texts []string
}

func (f *findings) Helper() {}
func (f *findings) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

// store is a server that recognizes an order by its key.
type store struct {
	keys   []string
	orders int
}

func (s *store) RoundTrip(req *http.Request) (*http.Response, error) {
	if key := req.Header.Get("Idempotency-Key"); !slices.Contains(s.keys, key) {
		s.keys = append(s.keys, key)
		s.orders++
	}
	return &http.Response{StatusCode: 200, Body: http.NoBody}, req.Body.Close()
}
