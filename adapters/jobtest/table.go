package jobtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// A row is one job, what its attempts do, and the outcome that must follow.
type row struct {
	name   string
	policy retry.Policy
	limit  int    // the job's own
	script []step // what each run does, in order; the last one repeats

	stopIn  int // the worker is stopped in this run, and another one started
	killIn  int // the worker is killed with its process in this run, and another one started
	panicIn int // this run panics in a separate process: if that dies, another worker is started

	want     retry.Reason // ReasonRetry: it waits for longer than a test can
	attempts int          // that must run, numbered from 1
	says     string       // part of the dead letter's text
}

type step func(ctx context.Context) error

var (
	errBoom    = errors.New("boom")
	errStrange = errors.New("boom\x00\xff\r\nRetry-Reason: tired\u2028\"'\\")
	errSlow    = errors.New("boom, slowly")
	errLong    = errors.New("boom" + strings.Repeat("!", 1<<20))
)

func ok(context.Context) error   { return nil }
func boom(context.Context) error { return errBoom }

// hang returns when its context ends. A worker that is killed never gets there.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func panics(context.Context) error { panic("jobtest: this attempt panics") }

func fails(err error) step { return func(context.Context) error { return err } }

func times(n int, s step) (script []step) {
	for range n {
		script = append(script, s)
	}
	return script
}

// table returns the rows. Those that wait for a lease come first, so that the
// others run meanwhile.
func table(e Engine) []row {
	u := e.Unit
	three := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: u}}
	with := func(change func(p *retry.Policy)) retry.Policy {
		p := three
		change(&p)
		return p
	}
	// If an interrupted attempt counts, no attempt is left.
	stopped := row{name: "the worker stops in the only attempt", policy: retry.Policy{MaxAttempts: 1}, stopIn: 1,
		script: []step{hang, ok}, want: retry.ReasonExhausted, attempts: 1}
	if e.Uncounted {
		stopped.want, stopped.attempts = retry.ReasonSuccess, 2
	}
	// If failures are not counted by class, the second failure is the class's last.
	class := row{name: "a class with a count of its own", policy: with(func(p *retry.Policy) {
		p.MaxAttempts, p.Classify = 5, func(err error) *retry.Class {
			if errors.Is(err, errSlow) {
				return &retry.Class{Name: "slow", MaxAttempts: 2, Backoff: retry.Fixed(2 * u)}
			}
			return nil
		}
	}), script: []step{boom, fails(errSlow)}, want: retry.ReasonExhausted, attempts: 2}
	if e.Classes {
		class.attempts, class.says = 3, `(2 of "slow")`
	}
	return []row{
		{name: "killed in the middle", policy: three, killIn: 1, script: []step{hang, ok}, want: retry.ReasonSuccess, attempts: 2},
		{name: "killed in the middle of a later attempt", policy: three, killIn: 2, script: []step{boom, hang, ok}, want: retry.ReasonSuccess, attempts: 3},
		{name: "killed in the last attempt", policy: with(func(p *retry.Policy) { p.MaxAttempts = 2 }), killIn: 2,
			script: []step{boom, hang}, want: retry.ReasonExhausted, attempts: 2},
		{name: "killed in the only attempt", policy: with(func(p *retry.Policy) { p.MaxAttempts = 1 }), killIn: 1,
			script: []step{hang}, want: retry.ReasonExhausted, attempts: 1},
		{name: "killed in the only attempt of the job's own limit", policy: three, limit: 1, killIn: 1,
			script: []step{hang}, want: retry.ReasonExhausted, attempts: 1},
		{name: "killed where nothing is retryable", policy: with(func(p *retry.Policy) { p.NonRetryable = true }), killIn: 1,
			script: []step{hang}, want: retry.ReasonNonRetryable, attempts: 1},
		// Each delay alone is within MaxElapsed, and so is the time since the kill.
		{name: "MaxElapsed, and a kill on the way", policy: retry.Policy{MaxElapsed: time.Hour, Backoff: retry.Schedule{u, u, time.Hour - u/2}}, killIn: 2,
			script: []step{boom, hang, boom}, want: retry.ReasonElapsed, attempts: 3},
		{name: "a panic", policy: three, panicIn: 1, script: []step{panics, ok}, want: retry.ReasonSuccess, attempts: 2},
		{name: "a panic in the last attempt", policy: with(func(p *retry.Policy) { p.MaxAttempts = 1 }), panicIn: 1,
			script: []step{panics}, want: retry.ReasonExhausted, attempts: 1},
		{name: "the worker stops", policy: three, stopIn: 1, script: []step{hang, ok}, want: retry.ReasonSuccess, attempts: 2},
		stopped,

		{name: "success", policy: three, script: []step{ok}, want: retry.ReasonSuccess, attempts: 1},
		{name: "fails twice, then succeeds", policy: with(func(p *retry.Policy) { p.Jitter = retry.EqualJitter }),
			script: []step{boom, boom, ok}, want: retry.ReasonSuccess, attempts: 3},
		{name: "exhausted", policy: three, script: []step{boom}, want: retry.ReasonExhausted, attempts: 3},
		{name: "delays", policy: retry.Policy{MaxAttempts: 4, Backoff: retry.Schedule{u, 2 * u, 3 * u}},
			script: []step{boom}, want: retry.ReasonExhausted, attempts: 4},
		{name: "no delay", policy: with(func(p *retry.Policy) { p.Backoff = nil }), script: []step{boom}, want: retry.ReasonExhausted, attempts: 3},
		{name: "more attempts than the queue's default", policy: retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Millisecond)},
			script: append(times(27, boom), ok), want: retry.ReasonSuccess, attempts: 28},
		{name: "the job's limit is below the policy's", policy: three, limit: 2, script: []step{boom}, want: retry.ReasonExhausted, attempts: 2},
		{name: "the job's limit is above the policy's", policy: three, limit: 50, script: []step{boom}, want: retry.ReasonExhausted, attempts: 3},
		{name: "AttemptCap", policy: with(func(p *retry.Policy) { p.AttemptCap = 2 }), limit: 3, script: []step{boom}, want: retry.ReasonExhausted, attempts: 2},
		{name: "NonRetryable", policy: with(func(p *retry.Policy) { p.NonRetryable = true }), script: []step{boom}, want: retry.ReasonNonRetryable, attempts: 1},
		{name: "Permanent", policy: three, script: []step{boom, fails(retry.Permanent(errBoom))}, want: retry.ReasonPermanent, attempts: 2},
		{name: "an error of any text", policy: three, script: []step{fails(errStrange), fails(retry.Permanent(errStrange))}, want: retry.ReasonPermanent, attempts: 2},
		{name: "errors of 1 MiB", policy: three, script: []step{fails(errLong), fails(retry.Permanent(errLong))}, want: retry.ReasonPermanent, attempts: 2},
		{name: "RetryIf", policy: with(func(p *retry.Policy) { p.RetryIf = func(err error) bool { return !errors.Is(err, errBoom) } }),
			script: []step{fails(errors.New("passes")), boom}, want: retry.ReasonRejected, attempts: 2},
		{name: "a class", policy: with(func(p *retry.Policy) {
			p.Classify = func(error) *retry.Class {
				return &retry.Class{MaxAttempts: 2, Backoff: retry.Fixed(2 * u)} //retry:vet-ignore policyliteral what this row tests
			}
		}), script: []step{boom}, want: retry.ReasonExhausted, attempts: 2},
		class,
		{name: "a class that is invalid", policy: with(func(p *retry.Policy) {
			p.Classify = func(error) *retry.Class { return &retry.Class{MaxDelay: -1} } //retry:vet-ignore policyliteral what this row tests
		}), script: []step{boom}, want: retry.ReasonInvalid, attempts: 1},
		{name: "After, within MaxRetryAfter", policy: three, script: []step{fails(retry.After(3*u, errBoom)), ok}, want: retry.ReasonSuccess, attempts: 2},
		{name: "After, always", policy: three, script: []step{fails(retry.After(u, errBoom))}, want: retry.ReasonExhausted, attempts: 3},
		{name: "After, beyond MaxRetryAfter", policy: with(func(p *retry.Policy) { p.MaxRetryAfter = u }),
			script: []step{fails(retry.After(24*time.Hour, errBoom))}, want: retry.ReasonRetryAfter, attempts: 1},
		{name: "After, of five hours", policy: retry.Default(), script: []step{fails(retry.After(5*time.Hour, errBoom))}, want: retry.ReasonRetry, attempts: 1},
		// The second delay alone is within MaxElapsed.
		{name: "MaxElapsed", policy: retry.Policy{MaxElapsed: time.Hour, Backoff: retry.Schedule{u, time.Hour - u/2}},
			script: []step{boom}, want: retry.ReasonElapsed, attempts: 2},
		{name: "an empty Budget", policy: with(func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 1} }),
			script: []step{boom}, want: retry.ReasonBudget, attempts: 2},
		{name: "AttemptTimeout", policy: with(func(p *retry.Policy) { p.AttemptTimeout, p.MaxAttempts = 50*time.Millisecond, 2 }),
			script: []step{hang}, want: retry.ReasonExhausted, attempts: 2},
	}
}

// endsProcess reports whether the worker of r dies, and its process with it.
func (r row) endsProcess() bool { return r.killIn > 0 || r.panicIn > 0 }

func rowOf(e Engine, name string) (row, error) {
	for _, r := range table(e) {
		if r.name == name {
			return r, nil
		}
	}
	return row{}, fmt.Errorf("the table has no row %q", name)
}

// do returns what a worker does with the job of r.
func (r *row) do(j *journal) func(ctx context.Context, key string, attempt int) error {
	return func(ctx context.Context, key string, attempt int) error {
		return j.around(key, attempt, func() error {
			runs, err := j.readRuns()
			if err != nil {
				return err
			}
			return r.script[min(len(runs[key]), len(r.script))-1](ctx)
		})
	}
}

// numbers returns the numbers of the attempts that must run.
func (r *row) numbers(e Engine) (numbers []int) {
	for n := 1; n <= r.attempts; n++ {
		numbers = append(numbers, n)
	}
	if r.stopIn > 0 && e.Uncounted {
		for i := r.stopIn; i < len(numbers); i++ {
			numbers[i]--
		}
	}
	return numbers
}
