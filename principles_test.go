package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"io"
	"maps"
	"math"
	randv2 "math/rand/v2"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// Each test here pins a principle of the whole package. The other tests pin the
// details.

func TestPrinciple01AZeroFieldIsOff(t *testing.T) {
	boom := errors.New("boom")
	assert.Equal(t, 1, retry.Policy{}.EffectiveMax())
	assert.Equal(t, retry.Decision{Reason: retry.ReasonExhausted}, retry.Policy{}.Next(retry.Attempt{Number: 1, Err: boom}))
	runs := 0
	assert.ErrorIs(t, retry.Do(t.Context(), retry.Policy{}, func(context.Context) error { runs++; return boom }), boom)
	assert.Equal(t, 1, runs)

	const longest = time.Duration(math.MaxInt64)
	next := func(p retry.Policy, a retry.Attempt) retry.Decision {
		p.MaxAttempts, a.Number, a.Seed = 3, 1, 42
		return p.Next(a)
	}
	retries := func(d time.Duration) retry.Decision { return drawnFrom(d, retry.ReasonRetry) }
	t.Run("a zero policy never retries a job", func(t *testing.T) {
		d, err := retry.Once(t.Context(), retry.Policy{}, retry.Attempt{Number: 1}, func(context.Context) error { return boom })
		assert.ErrorIs(t, err, boom)
		assert.Equal(t, retry.Decision{Reason: retry.ReasonExhausted}, d)
	})
	t.Run("a class without a limit has that of the call", func(t *testing.T) {
		for _, name := range []string{"", "busy"} {
			p := retry.Policy{MaxAttempts: 3, Classify: func(error) *retry.Class { return &retry.Class{Name: name, Policy: &retry.Policy{}} }}
			runs := 0
			err := retry.Do(t.Context(), p, func(context.Context) error { runs++; return boom })
			assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
			assert.Equal(t, 3, runs)
		}
	})

	off := map[string]func(t *testing.T){
		"MaxAttempts": func(t *testing.T) { assert.Equal(t, 4, retry.Policy{MaxRetries: 3}.EffectiveMax()) },
		"MaxRetries":  func(t *testing.T) { assert.Equal(t, 3, retry.Policy{MaxAttempts: 3}.EffectiveMax()) },
		"AttemptCap": func(t *testing.T) {
			assert.Equal(t, math.MaxInt, retry.Policy{MaxAttempts: math.MaxInt}.EffectiveMax())
		},
		"NonRetryable": func(t *testing.T) { assert.Equal(t, retries(0), next(retry.Policy{}, retry.Attempt{Err: boom})) },
		"Backoff":      func(t *testing.T) { assert.Equal(t, retries(0), next(retry.Policy{MaxDelay: 1}, retry.Attempt{})) },
		"MaxDelay": func(t *testing.T) {
			assert.Equal(t, retries(longest), next(retry.Policy{Backoff: retry.Fixed(longest)}, retry.Attempt{}))
		},
		"Jitter": func(t *testing.T) {
			assert.Equal(t, retries(time.Second), next(retry.Policy{Backoff: retry.Fixed(time.Second)}, retry.Attempt{}))
		},
		"ExactRetryAfter": func(t *testing.T) { // the curve, where that is longer
			want := retries(time.Hour)
			want.RetryAfter = time.Minute
			assert.Equal(t, want, next(retry.Policy{Backoff: retry.Fixed(time.Hour)}, retry.Attempt{Err: retry.After(time.Minute, boom)}))
		},
		"MaxRetryAfter": func(t *testing.T) { // for safety, not unlimited
			assert.Equal(t, askedFor(time.Minute, retry.ReasonRetry), next(retry.Policy{}, retry.Attempt{Err: retry.After(time.Minute, boom)}))
		},
		"Source": func(t *testing.T) {
			p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(longest), Jitter: retry.FullJitter}
			assert.NotEqual(t, p.Next(retry.Attempt{Number: 1}), p.Next(retry.Attempt{Number: 1}), "math/rand/v2 draws")
		},
		"MaxElapsed": func(t *testing.T) { assert.Equal(t, retries(0), next(retry.Policy{}, retry.Attempt{Elapsed: longest})) },
		"AttemptTimeout": func(t *testing.T) {
			assert.NoError(t, retry.Do(context.Background(), retry.Policy{}, func(ctx context.Context) error {
				_, bounded := ctx.Deadline()
				assert.False(t, bounded)
				return nil
			}))
		},
		"HealthyAfter": func(t *testing.T) {
			assert.Equal(t, retries(0), next(retry.Policy{}, retry.Attempt{Err: boom, Took: longest}))
		},
		"RetryIf":  func(t *testing.T) { assert.Equal(t, retries(0), next(retry.Policy{}, retry.Attempt{Err: boom})) },
		"Classify": func(t *testing.T) { assert.Equal(t, retries(0), next(retry.Policy{}, retry.Attempt{Err: boom})) },
		"Budget":   func(t *testing.T) { assert.True(t, retry.Policy{}.Budget.Take()) },
		"Wait": func(t *testing.T) { // a timer
			synctest.Test(t, func(t *testing.T) {
				start, runs := time.Now(), 0
				stopped(t, retry.Do(t.Context(), everySecond, fails(&runs)))
				assert.Equal(t, 2*time.Second, time.Since(start))
			})
		},
		"OnEvent": func(t *testing.T) {
			assert.NoError(t, retry.Do(t.Context(), retry.Policy{}, func(context.Context) error { return nil }))
		},
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[retry.Policy]()) {
		require.Contains(t, off, field.Name, "a field whose zero is not tested")
		t.Run(field.Name, off[field.Name])
	}
}

func TestPrinciple02OneCountOneWord(t *testing.T) {
	boom := errors.New("boom")
	for _, retries := range []int{1, 2, 3, 24, 1_000_000, math.MaxInt - 1, math.MaxInt, retry.Unlimited} {
		byRetries := retry.Policy{MaxRetries: retries, Backoff: retry.Exponential{Base: time.Second}}
		byAttempts := retry.Policy{MaxAttempts: retry.Retries(retries), Backoff: retry.Exponential{Base: time.Second}}
		assert.Equal(t, byAttempts.EffectiveMax(), byRetries.EffectiveMax(), "%d retries", retries)
		for _, attempts := range boundaryInts {
			assert.Equal(t, byAttempts.Eligible(attempts), byRetries.Eligible(attempts), "%d retries, %d attempts", retries, attempts)
			a := retry.Attempt{Number: attempts, Err: boom}
			assert.Equal(t, byAttempts.Next(a), byRetries.Next(a), "%d retries, %d attempts", retries, attempts)
		}
	}

	// A call counts attempts too.
	runs := 0
	err := retry.Do(t.Context(), retry.Policy{MaxRetries: 3}, func(context.Context) error { runs++; return boom })
	var e *retry.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, []int{4, 4}, []int{runs, e.Attempts})
}

func TestPrinciple03PolicyIsAnImmutableValue(t *testing.T) {
	boom := errors.New("boom")
	base := retry.Policy{
		MaxAttempts: 5, AttemptCap: 9, Backoff: retry.Schedule{time.Second, time.Minute}, MaxDelay: time.Minute, Jitter: retry.Proportional(.2),
		MaxElapsed: time.Hour, Budget: &retry.Budget{Size: 3, Ratio: .1},
	}
	before := base
	before.Backoff = retry.Schedule{time.Second, time.Minute}

	t.Run("no method changes it", func(t *testing.T) {
		for attempt := range 12 {
			base.Next(retry.Attempt{Number: attempt, Err: retry.After(time.Second, boom)})
			base.Eligible(attempt)
			base.ForJob(attempt)
		}
		_ = base.Validate()
		_ = base.Lint()
		_ = base.String()
		base.EffectiveMax()
		assert.Equal(t, before, base)
	})

	t.Run("a copy is independent", func(t *testing.T) {
		derived := base
		derived.MaxAttempts, derived.Backoff = 2, nil
		assert.Equal(t, 2, derived.EffectiveMax())
		assert.Equal(t, before, base)
	})

	t.Run("methods have a value receiver", func(t *testing.T) {
		value, pointer := reflect.TypeFor[retry.Policy](), reflect.TypeFor[*retry.Policy]()
		for i := range pointer.NumMethod() {
			method := pointer.Method(i)
			if strings.HasPrefix(method.Name, "Unmarshal") {
				continue
			}
			_, ok := value.MethodByName(method.Name)
			assert.True(t, ok, "%s takes a pointer", method.Name)
		}
	})

	everyWay(t, "no field means two things: Source draws seeds, Wait waits", func(t *testing.T, call caller) {
		draw := constant(7)
		sources := map[string]func() uint64{"a Source": draw, "a Source around it": func() uint64 { return draw() }}
		for name, source := range sources {
			for _, wait := range []func(context.Context, time.Duration) (time.Duration, error){nil, skips} {
				var told watch
				p := everySecond
				p.Jitter, p.Source, p.Wait, p.OnEvent = retry.FullJitter, source, wait, told.event
				start, runs := time.Now(), 0
				e := stopped(t, call(t.Context(), p, fails(&runs)))
				assert.Equal(t, 3, runs, name)
				for i, scheduled := range told.of(retry.RetryScheduled) {
					assert.Equal(t, p.Next(retry.Attempt{Number: i + 1, Seed: 7}).Delay, scheduled.Delay, name)
				}
				passed := e.Waited
				if wait != nil {
					passed = 0
				}
				assert.Equal(t, passed, time.Since(start), name)
			}
		}
	})

	t.Run("any number of goroutines, and equal answers", func(t *testing.T) {
		answers := make([][]retry.Decision, 8)
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() {
				for attempt := range 200 {
					answers[i] = append(answers[i], base.Next(retry.Attempt{Number: attempt, Err: boom, Seed: uint64(attempt) + 1}))
				}
			})
		}
		wg.Wait()
		for _, got := range answers {
			assert.Equal(t, answers[0], got)
		}
	})
}

// The root waits in one place, the select of do, by one time.After; what else must
// wait does so through internal/wait. Each function of the root package that reads
// the clock, and each that waits in the packages below it, is listed here.
func TestPrinciple04DecisionAndWaitingAreApart(t *testing.T) {
	allowed := map[string][]string{
		"retry.go": {
			"do: select", "wait: time.After",
			"cannotBegin: time.Now", "timeFirst: time.Now", "watchFirst: time.Now", "execute: time.Now", "execute: context.WithDeadlineCause", "now: time.Now",
		},
		"once.go":               {"watchedOnce: time.Now"},
		"budget.go":             {"Take: time.Now", "refill: time.Since"}, // not a decision: Next never touches a Budget
		"internal/wait/wait.go": {"For: time.NewTimer"},
		"retryflow/pipeline.go": {"wait: wait.For"}, // before a jump
		// These bound one attempt, the reading of one body, and the run of a
		// custom type's method. None of them waits for the next attempt.
		"retryhttp/transport.go": {"attempt: time.AfterFunc"},
		"retryhttp/discard.go":   {"discard: time.NewTimer", "discardAndWait: wait.For"},
		// A fault that a test injects, and that is meant to be slow.
		"retryhttp/httpfault/httpfault.go": {"Slow: time.NewTimer"},
		"retrytest/conformance.go":         {"check: time.NewTimer"},
	}
	used := make(map[string][]string)
	files := sources(t)
	maps.Copy(files, moduleSources(t, "retryflow"))
	for file, parsed := range files {
		if strings.HasPrefix(file, "examples/") {
			continue // programs, which are not part of the library
		}
		if strings.HasPrefix(file, "internal/jobtest/") || strings.HasPrefix(file, "internal/servers/") {
			continue // for tests of servers, in real time
		}
		root := path.Dir(file) == "."
		for _, use := range clockUses(parsed, root) {
			if _, call, _ := strings.Cut(use, ": "); (root || waits[call]) && !slices.Contains(used[file], use) {
				used[file] = append(used[file], use)
			}
		}
	}
	for file := range used {
		assert.ElementsMatch(t, allowed[file], used[file], file)
	}
	assert.NotEmpty(t, used["retry.go"], "the search did not find the loop")
}

func TestPrinciple05TheCapAlwaysHoldsAndJitterAlwaysLives(t *testing.T) {
	curves := []retry.Backoff{
		retry.Fixed(7 * time.Second), retry.Fixed(math.MaxInt64), retry.Linear(6 * time.Second), retry.Fibonacci(time.Hour),
		retry.Exponential{Base: time.Minute}, retry.Schedule{time.Hour}, retry.BackoffFunc(func(int) time.Duration { return math.MaxInt64 }),
	}
	for name, jitter := range cappedJitters {
		for _, curve := range curves {
			p := retry.Policy{MaxAttempts: -1, Backoff: curve, MaxDelay: 5 * time.Second, Jitter: jitter}
			distinct, atCap := map[time.Duration]bool{}, 0
			for seed := range uint64(1000) {
				d := p.Next(retry.Attempt{Number: 1, Seed: seed + 1}).Delay
				require.LessOrEqual(t, d, p.MaxDelay, "%s on %v", name, curve)
				distinct[d] = true
				if d == p.MaxDelay {
					atCap++
				}
			}
			assert.GreaterOrEqual(t, len(distinct), 990, "%s on %v", name, curve)
			assert.LessOrEqual(t, atCap, 1, "%s on %v: many equal delays at the cap", name, curve)
		}
	}

	const asked, end = 4 * time.Second, 5 * time.Second
	askedFor := retry.After(asked, errors.New("boom"))
	for name, jitter := range cappedJitters {
		t.Run("what a server asks for is not undercut, nor overshot past the end of the call/"+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for seed := range uint64(100) {
					for _, p := range []retry.Policy{{MaxElapsed: end}, {MaxAttempts: 2}} {
						ctx, cancel := context.WithCancel(t.Context())
						if p.MaxElapsed == 0 {
							ctx, cancel = context.WithTimeout(t.Context(), end)
						}
						p.Backoff, p.MaxDelay, p.Jitter, p.Source = retry.Fixed(time.Second), 3*time.Second, jitter, constant(seed+1)
						start, runs := time.Now(), 0
						require.NoError(t, retry.Do(ctx, p, func(context.Context) error {
							if runs++; runs == 1 {
								return askedFor
							}
							return nil
						}))
						cancel()
						assert.GreaterOrEqual(t, time.Since(start), asked)
						assert.LessOrEqual(t, time.Since(start), end)
					}
				}
			})
		})
	}
}

func TestPrinciple06TotalFunctions(t *testing.T) {
	const longest, most = time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
	boom := errors.New("boom")
	backoffs := []retry.Backoff{nil, retry.BackoffFunc(nil), negative{}, retry.Schedule{}, retry.Schedule{most, longest, 0}}
	for _, d := range []time.Duration{most, -1, 0, 1, longest} {
		backoffs = append(backoffs, retry.Fixed(d), retry.Linear(d), retry.Fibonacci(d))
		for _, factor := range []float64{0, .5, 1, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)} {
			backoffs = append(backoffs, retry.Exponential{Base: d, Factor: factor})
		}
	}
	jitters := []retry.Jitter{
		nil, retry.FullJitter, retry.EqualJitter, retry.Proportional(1), retry.Proportional(math.NaN()), retry.Proportional(math.Inf(1)),
		fixedWindow{longest, most}, fixedWindow{most, longest}, fixedWindow{longest, longest}, fixedWindow{most, most},
	}
	limits := []int{math.MinInt, -1, 0, 3, math.MaxInt}
	for _, backoff := range backoffs {
		for _, jitter := range jitters {
			for _, limit := range limits {
				for _, maxDelay := range []time.Duration{most, 0, 1, longest} {
					p := retry.Policy{MaxAttempts: limit, Backoff: backoff, Jitter: jitter, MaxDelay: maxDelay, MaxRetryAfter: max(0, maxDelay)}
					fatal := func(format string, args ...any) {
						t.Helper()
						t.Fatalf("%T %v, %T %v, %d, %d: %s", backoff, backoff, jitter, jitter, limit, maxDelay, fmt.Sprintf(format, args...))
					}
					sound := p.Validate() == nil
					_, _ = p.Lint(), p.String()
					for _, number := range []int{math.MinInt, 1, 64, math.MaxInt} {
						for _, hint := range []time.Duration{most, 1, longest} {
							next := p.Next(retry.Attempt{Number: number, Err: retry.After(hint, boom), Elapsed: hint, Seed: math.MaxUint64})
							if next.Delay < 0 || next.Reason == "" || sound == (next.Reason == retry.ReasonInvalid) || next.Retry() && !p.Eligible(number) {
								fatal("%v after %d with a Retry-After of %d", next, number, hint)
							}
						}
					}
					_, trustedBackoff := backoff.(negative)
					_, trustedJitter := jitter.(fixedWindow)
					if sound && p.EffectiveMax() == retry.Unlimited && !trustedBackoff && !trustedJitter {
						if _, greatest := windowOf(p, retry.Attempt{Number: math.MaxInt}); greatest == 0 {
							fatal("a hot loop")
						}
					}
				}
			}
		}
	}
}

func TestPrinciple07AScheduleCanBeComputedAgain(t *testing.T) {
	t.Run("equal seed, equal delays", func(t *testing.T) {
		for _, g := range goldenPolicies {
			p := g.policy
			p.MaxAttempts = 100
			seed, other := retry.SeedOf("job-1"), retry.SeedOf("job-2")
			same := 0
			for attempt := 1; attempt < 100; attempt++ {
				d := p.Next(retry.Attempt{Number: attempt, Seed: seed})
				assert.Equal(t, d, p.Next(retry.Attempt{Number: attempt, Seed: seed}))
				if d == p.Next(retry.Attempt{Number: attempt, Seed: other}) {
					same++
				}
			}
			if p.Jitter != nil {
				assert.LessOrEqual(t, same, 1, "%s: another job has different delays", g.name)
			}
		}
	})

	t.Run("a call whose Source draws the same waits the same", func(t *testing.T) {
		run := func() (waits []time.Duration, seeds map[uint64]bool) {
			seeds = map[uint64]bool{}
			synctest.Test(t, func(t *testing.T) {
				p := retry.Default()
				p.MaxAttempts, p.Source = 10, randv2.NewPCG(1, 2).Uint64
				p.OnEvent = func(_ context.Context, e retry.Event) {
					if e.Kind == retry.RetryScheduled {
						seeds[e.Seed] = true
						assert.Equal(t, e.Delay, retry.Default().Next(retry.Attempt{Number: e.Attempt, Seed: e.Seed}).Delay, "from the policy and the seed")
						assert.Equal(t, e.Delay, retry.Draw(e.Seed, e.Attempt, e.Lo, e.Hi), "from its own line")
					}
				}
				last := time.Now()
				_ = retry.Do(t.Context(), p, func(context.Context) error {
					waits = append(waits, time.Since(last))
					last = time.Now()
					return errors.New("boom")
				})
			})
			return waits, seeds
		}
		first, seeds := run()
		again, _ := run()
		assert.Len(t, first, 10)
		assert.Equal(t, first, again)
		assert.Len(t, seeds, 1, "one seed for each call")
	})
}

func TestPrinciple08NothingIsLost(t *testing.T) {
	type row struct {
		name   string
		policy retry.Policy
		end    func(context.Context) context.Context
		fail   error
		reason retry.Reason
		is     []error // besides what fn failed with
		isNot  []error
	}
	second := retry.Fixed(time.Second)
	contexts := []error{context.Canceled, context.DeadlineExceeded, errShutdown}
	in := func(d time.Duration, cause error) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context { return hidden{within(ctx, d, cause)} }
	}
	canceledIn := func(d time.Duration, cause error) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(d, func() { cancel(cause) })
			return ctx
		}
	}
	for _, row := range []row{
		{"exhausted", retry.Policy{MaxAttempts: 2}, nil, errDial, retry.ReasonExhausted, nil, contexts},
		{"permanent", retry.Policy{MaxAttempts: 2}, nil, retry.Permanent(errDial), retry.ReasonPermanent, nil, contexts},
		{"canceled", retry.Policy{MaxAttempts: 2, Backoff: second}, canceledIn(1, nil), errDial, retry.ReasonCanceled, contexts[:1], contexts[1:]},
		{"canceled with a cause", retry.Policy{MaxAttempts: 2, Backoff: second}, canceledIn(1, errShutdown), errDial, retry.ReasonCanceled, []error{context.Canceled, errShutdown}, contexts[1:2]},
		{"deadline", retry.Policy{MaxAttempts: 2, Backoff: second}, in(1, nil), errDial, retry.ReasonDeadline, contexts[1:2], []error{context.Canceled, errShutdown}},
		{"deadline with a cause", retry.Policy{MaxAttempts: 2, Backoff: second}, in(1, errShutdown), errDial, retry.ReasonDeadline, contexts[1:], contexts[:1]},
		// A context has no cause before its deadline.
		{"deadline ahead", retry.Policy{MaxAttempts: 2, Backoff: second}, func(ctx context.Context) context.Context { return within(ctx, 1, errShutdown) },
			errDial, retry.ReasonDeadline, contexts[1:2], []error{context.Canceled, errShutdown}},
		{"elapsed", retry.Policy{MaxAttempts: 2, Backoff: second, MaxElapsed: 1}, nil, errDial, retry.ReasonElapsed, nil, contexts},
		{"canceled, and fn failed with a deadline", retry.Policy{MaxAttempts: 2, Backoff: second}, canceledIn(1, errShutdown), context.DeadlineExceeded, retry.ReasonCanceled, contexts, nil},
		{"the wait failed", retry.Policy{MaxAttempts: 2, Wait: func(context.Context, time.Duration) (time.Duration, error) { return 0, errShutdown }},
			nil, errDial, retry.ReasonWait, []error{errShutdown}, contexts[:2]},
		{"not retryable by a class, which says why", retry.Policy{MaxAttempts: 2, Classify: func(error) *retry.Class {
			return &retry.Class{Policy: &retry.Policy{NonRetryable: true}, Cause: errShutdown}
		}}, nil, errDial, retry.ReasonNonRetryable, []error{errShutdown}, contexts[:2]},
		{"exhausted, and fn failed with Canceled though the context is not done", retry.Policy{MaxAttempts: 2}, nil, context.Canceled, retry.ReasonExhausted, contexts[:1], contexts[1:]},
		{"exhausted, and fn failed with a deadline though the context is not done", retry.Policy{MaxAttempts: 2}, nil, context.DeadlineExceeded, retry.ReasonExhausted, contexts[1:2], contexts[2:]},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			ctx := t.Context()
			if row.end != nil {
				ctx = row.end(ctx)
			}
			err := call(ctx, row.policy, func(context.Context) error { return row.fail })
			e := stopped(t, err)
			assert.Equal(t, row.reason, retry.ReasonOf(err), "why it stopped")
			assert.True(t, row.fail == e.Err, "what it failed with")
			assert.ErrorIs(t, err, row.fail)
			for _, is := range row.is {
				assert.ErrorIs(t, err, is)
			}
			for _, is := range row.isNot {
				assert.NotErrorIs(t, err, is)
			}
			caused := slices.Contains([]retry.Reason{retry.ReasonCanceled, retry.ReasonDeadline, retry.ReasonWait, retry.ReasonNonRetryable}, row.reason)
			if assert.Equal(t, caused, e.Cause != nil, "what stopped it besides the failure") && caused {
				assert.NotErrorIs(t, e.Cause, errDial, "never mixed up")
				assert.Equal(t, []error{e.Err, e.Cause}, e.Unwrap(), "Err, then Cause")
			} else {
				assert.Equal(t, []error{e.Err}, e.Unwrap())
			}
		})
	}
	t.Run("an error's own type is found", func(t *testing.T) {
		fail := &statusError{code: 503}
		err := retry.Do(t.Context(), retry.Policy{MaxAttempts: 2}, func(context.Context) error { return fmt.Errorf("get /: %w", fail) })
		var found *statusError
		require.ErrorAs(t, err, &found)
		assert.Same(t, fail, found)
	})
	everyWay(t, "the Cause is found, whatever it is", func(t *testing.T, call caller) {
		for _, row := range []struct {
			name   string
			ctx    context.Context
			policy retry.Policy
		}{
			{"a canceled context", canceledBy(errShutdown)(t.Context()), everySecond},
			{"a deadline ahead", within(t.Context(), time.Second, nil), everySecond},
			{"no context", noContext, everySecond},
			{"an invalid policy", t.Context(), retry.Policy{MaxAttempts: -2}},
			{"an invalid class", t.Context(), retry.Policy{MaxAttempts: 2, Classify: unnamed(&retry.Policy{MaxAttempts: -2})}},
		} {
			err := call(row.ctx, row.policy, func(context.Context) error { return errDial })
			assert.True(t, errors.Is(err, stopped(t, err).Cause), row.name)
		}
	})
	everyWay(t, "a retry that was paid for and not made is given back", func(t *testing.T, call caller) {
		for name, stop := range map[string]func(p *retry.Policy, cancel func()){
			"canceled in the wait": func(_ *retry.Policy, cancel func()) { time.AfterFunc(time.Second/2, cancel) },
			"the wait failed": func(p *retry.Policy, _ func()) {
				p.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, errShutdown }
			},
			"a panic": func(p *retry.Policy, _ func()) {
				p.Wait = func(context.Context, time.Duration) (time.Duration, error) { panic("Wait") }
			},
		} {
			own, shared := &retry.Budget{Size: 3}, &retry.Budget{Size: 3}
			ctx, cancel := context.WithCancel(retry.WithBudget(t.Context(), shared))
			p := everySecond
			p.Budget = own
			stop(&p, cancel)
			runs := 0
			func() {
				defer func() { _ = recover() }()
				_ = call(ctx, p, fails(&runs))
			}()
			cancel()
			assert.Equal(t, 1, runs, name)
			assert.Equal(t, []int{3, 3}, []int{own.Left(), shared.Left()}, name)
		}
	})
	t.Run("Unwrap of an Error that holds nothing", func(t *testing.T) {
		assert.Empty(t, (*retry.Error)(nil).Unwrap())
		assert.Empty(t, new(retry.Error).Unwrap())
		assert.Equal(t, []error{io.EOF}, (&retry.Error{Cause: io.EOF}).Unwrap())
	})
	bubble(t, "the context's cause is read when the Error is, not before", func(t *testing.T) {
		inner, cancel := context.WithCancelCause(t.Context())
		cancel(errShutdown)
		ctx := &asked{Context: inner}
		err := retry.Do(ctx, everySecond, func(context.Context) error { return nil })
		require.Error(t, err)
		assert.Zero(t, ctx.values, "context.Cause calls Value to find the context that has the cause")
		assert.ErrorIs(t, err, errShutdown)
		assert.NotZero(t, ctx.values)
	})
	bubble(t, "a context of a type that cannot be compared", func(t *testing.T) {
		ctx := incomparable{canceledBy(errShutdown)(t.Context()), []string{"trace"}}
		err := retry.Do(ctx, everySecond, func(context.Context) error { return nil })
		e := stopped(t, err)
		assert.NotPanics(t, func() { assert.ErrorIs(t, err, e.Cause) })
		assert.ErrorIs(t, err, errShutdown)
	})
}

type statusError struct{ code int }

func (e *statusError) Error() string { return fmt.Sprint("status ", e.code) }

// asked is a context that counts the calls of its Value method.
type asked struct {
	context.Context
	values int
}

func (c *asked) Value(key any) any { c.values++; return c.Context.Value(key) }

// incomparable is a context that panics when it is compared.
type incomparable struct {
	context.Context
	fields []string
}

func TestPrinciple09FailSafe(t *testing.T) {
	t.Run("what is unknown is kept and never guessed", func(t *testing.T) {
		const text = `{"kind":"attempt_paused","time":"0001-01-01T00:00:00Z","attempt":2,"max":5,"reason":"tired"}`
		var e retry.Event
		require.NoError(t, json.Unmarshal([]byte(text), &e))
		back, err := json.Marshal(e)
		require.NoError(t, err)
		assert.JSONEq(t, text, string(back))
		assert.False(t, retry.Decision{Reason: e.Reason}.Retry(), "an unknown reason is no retry")
	})
	for name, p := range invalidPolicies() {
		fault := p.Validate()
		require.Error(t, fault, name)
		everyWay(t, name+"/never retries and reports both errors", func(t *testing.T, call caller) {
			start, runs := time.Now(), 0
			err := call(t.Context(), p, fails(&runs))
			e := stopped(t, err)
			assert.Equal(t, 1, runs)
			assert.Zero(t, time.Since(start))
			assert.Equal(t, &retry.Error{Reason: retry.ReasonInvalid, Attempts: 1, Err: errDial, Cause: e.Cause}, plain(err))
			assert.EqualError(t, e.Cause, fault.Error())
			assert.EqualError(t, err, "retry: invalid policy after 1 attempt ("+strings.TrimPrefix(fault.Error(), "invalid policy: ")+"): dial tcp: connection refused")
		})
		everyWay(t, name+"/success is success", func(t *testing.T, call caller) {
			runs := 0
			require.NoError(t, call(t.Context(), p, func(context.Context) error { runs++; return nil }))
			assert.Equal(t, 1, runs)
		})
		everyWay(t, name+"/events are 1, 1, 0, 1 and name the fault either way", func(t *testing.T, call caller) {
			for _, result := range []error{nil, errDial} {
				var told watch
				watched := p
				watched.OnEvent = told.event
				require.ErrorIs(t, call(t.Context(), watched, func(context.Context) error { return result }), result)
				assert.Equal(t, counts{1, 1, 0, 1}, told.counts())
				last := told.events[len(told.events)-1]
				want := retry.ReasonSuccess
				if result != nil {
					want = retry.ReasonInvalid
				}
				assert.Equal(t, want, last.Reason)
				assert.Equal(t, result, last.Err)
				assert.EqualError(t, last.Cause, fault.Error())
				assert.Equal(t, 1, last.Max)
			}
		})
	}
}

func TestPrinciple10StandardLibraryNoGoroutineNoRecoverNoGlobalStateNoHiddenMethods(t *testing.T) {
	const module = "github.com/goretry/retry"
	files := sources(t)
	ofRoot := map[string]bool{".": true} // the root, and the packages that it is made of
	for file, parsed := range files {
		if path.Dir(file) == "." {
			for _, spec := range parsed.Imports {
				if dir, below := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/"); below {
					ofRoot[dir] = true
				}
			}
		}
	}
	require.Greater(t, len(ofRoot), 1)

	t.Run("the standard library only", func(t *testing.T) {
		for file, parsed := range files {
			dir := path.Dir(file)
			for _, spec := range parsed.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				require.NoError(t, err)
				ours, internal := strings.HasPrefix(imported, module), strings.HasPrefix(imported, module+"/internal/")
				first, _, _ := strings.Cut(imported, "/")
				switch {
				case ofRoot[dir]:
					assert.True(t, internal || !strings.Contains(first, "."), "%s imports %s", file, imported)
				case dir == "retrycenkalti":
					assert.True(t, ours || strings.HasPrefix(imported, "github.com/cenkalti/backoff/") || !strings.Contains(first, "."), "%s imports %s", file, imported)
				default:
					assert.True(t, ours || !strings.Contains(first, "."), "%s imports %s", file, imported)
				}
			}
		}
	})

	var root []*ast.File
	for file, parsed := range files {
		if ofRoot[path.Dir(file)] {
			root = append(root, parsed)
		}
	}
	require.Greater(t, len(root), 8)

	t.Run("no goroutine, no recover, no init", func(t *testing.T) {
		for _, file := range root {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Error("a go statement")
				case *ast.CallExpr:
					if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "recover" {
						t.Error("a call of recover")
					}
				case *ast.FuncDecl:
					if n.Name.Name == "init" && n.Recv == nil {
						t.Error("a func init")
					}
				}
				return true
			})
		}
	})

	// A user who wraps a value would lose what is found by its type. An error
	// is different: what wraps one has an Unwrap or an As.
	t.Run("nothing is found by asserting types, but the marks of errors", func(t *testing.T) {
		interfaces := map[string]bool{"error": true, "any": true}
		for _, file := range root {
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok {
					_, interfaces[spec.Name.Name] = spec.Type.(*ast.InterfaceType)
				}
				return true
			})
		}
		asserted := map[string]bool{}
		for name, file := range files {
			if path.Dir(name) != "." {
				continue
			}
			for _, named := range assertedTypes(file) {
				switch of := named.(type) {
				case *ast.Ident:
					if interfaces[of.Name] {
						asserted[name+": "+of.Name] = true
					}
				case *ast.InterfaceType, *ast.SelectorExpr, *ast.FuncType:
					asserted[fmt.Sprintf("%s: %T", name, of)] = true
				}
			}
		}
		assert.ElementsMatch(t, []string{"marks.go: retryAfterer", "marks.go: asker", "marks.go: wrapper", "marks.go: multiWrapper"},
			slices.Collect(maps.Keys(asserted)))
	})

	t.Run("no package variable is assigned to", func(t *testing.T) {
		globals := map[string]bool{}
		for _, file := range root {
			for _, decl := range file.Decls {
				if decl, ok := decl.(*ast.GenDecl); ok && decl.Tok == token.VAR {
					for _, spec := range decl.Specs {
						for _, name := range spec.(*ast.ValueSpec).Names {
							globals[name.Name] = true
						}
					}
				}
			}
		}
		assert.NotEmpty(t, globals, "at least the error variables are found")
		changes := func(e ast.Expr) {
			if name := variable(e); globals[name] {
				t.Errorf("%s is assigned to, or its address is taken", name)
			}
		}
		for _, file := range root {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					if n.Tok != token.DEFINE {
						for _, e := range n.Lhs {
							changes(e)
						}
					}
				case *ast.IncDecStmt:
					changes(n.X)
				case *ast.UnaryExpr:
					if n.Op == token.AND {
						changes(n.X)
					}
				}
				return true
			})
		}
	})

	t.Run("a panic passes through", func(t *testing.T) {
		assert.PanicsWithValue(t, "boom", func() {
			_ = retry.Do(t.Context(), retry.Default(), func(context.Context) error { panic("boom") })
		})
	})
}

// Every promise of a package has its tests in that package. Here: a package needs
// the root and internal/ alone, so that who imports it gets no other.
func TestPrinciple11EveryPackageNeedsTheRootAlone(t *testing.T) {
	const module = "github.com/goretry/retry"
	retrynet := module + "/retrynet"
	allowed := map[string][]string{"retryhttp": {retrynet}, "retrysql": {retrynet}}
	for file, parsed := range sources(t) {
		pkg, _, below := strings.Cut(file, "/")
		if !below || slices.Contains([]string{"internal", "examples"}, pkg) {
			continue // the root itself, and programs
		}
		for _, spec := range parsed.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			ours := strings.HasPrefix(imported, module+"/")
			itself := strings.HasPrefix(imported+"/", module+"/"+pkg+"/")
			internal := strings.HasPrefix(imported, module+"/internal/")
			assert.True(t, !ours || itself || internal || slices.Contains(allowed[pkg], imported), "%s imports %s", file, imported)
		}
	}
}
