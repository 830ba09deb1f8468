package jobtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// A row of the table is one job with its policy, the steps of its attempts, and the outcome
// that must follow.
type row struct {
	name   string
	policy retry.Policy
	limit  int    // the job's own limit on attempts; 0 if the job has none
	script []step // what each run does; later runs repeat the last step

	// Each of these fields contains the number of a run, or 0 if nothing happens to a worker. After
	// the run with this number, another worker starts.
	stopIn  int // the run in which the worker is stopped
	killIn  int // the run in which the worker's process is killed
	panicIn int // the run that panics, which ends the worker's process

	want     retry.Reason // why the job ends; ReasonRetry if it still waits at the end of the test
	attempts int          // the number of the last attempt that must run; attempts count from 1
	says     string       // a text that the error of the dead letter must contain
}

// A step is the function that one attempt of a job runs.
type step func(ctx context.Context) error

var (
	errBoom    = errors.New("boom")
	errStrange = errors.New("boom\x00\xff\r\nRetry-Reason: tired\u2028\"'\\")
	errSlow    = errors.New("boom, slowly")
	errLong    = errors.New("boom" + strings.Repeat("!", 1<<20))
)

func ok(context.Context) error   { return nil }
func boom(context.Context) error { return errBoom }

// The step `hang` returns when its context is done. If the worker is killed, `hang` never returns.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func panics(context.Context) error { panic("jobtest: this attempt panics") }

func fails(err error) step { return func(context.Context) error { return err } }

func permanently(err error) step { return fails(retry.Permanent(err)) }

func after(wait time.Duration) step { return fails(retry.After(wait, errBoom)) }

func times(n int, s step) (script []step) {
	for range n {
		script = append(script, s)
	}
	return script
}

// The function `table` returns the rows. Rows that wait until a lease ends come first, so that
// other rows can run meanwhile.
func table(e Engine) []row {
	return slices.Concat(workerRows(e), limitRows(e.Unit), errorRows(e), timeRows(e.Unit))
}

// The function `three` returns a policy of three attempts, which most rows use. If `change` is not
// nil, it may change the policy first.
func three(unit time.Duration, change func(p *retry.Policy)) retry.Policy {
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: unit}}
	if change != nil {
		change(&p)
	}
	return p
}

// workerRows returns the rows in which a worker is killed, panics or stops.
func workerRows(e Engine) []row {
	u := e.Unit
	one := three(u, func(p *retry.Policy) { p.MaxAttempts = 1 })
	two := three(u, func(p *retry.Policy) { p.MaxAttempts = 2 })
	none := three(u, func(p *retry.Policy) { p.NonRetryable = true })
	long := retry.Policy{MaxElapsed: time.Hour, Backoff: retry.Schedule{u, u, time.Hour - u/2}}
	// The worker stops during the first attempt, and MaxAttempts is 1. If the queue counts the
	// interrupted attempt, no second attempt is allowed.
	stopped := row{
		name: "the worker stops in the only attempt", policy: retry.Policy{MaxAttempts: 1}, stopIn: 1,
		script: []step{hang, ok}, want: retry.ReasonExhausted, attempts: 1,
	}
	if e.Uncounted {
		stopped.want, stopped.attempts = retry.ReasonSuccess, 2
	}
	return []row{
		{name: "killed in the middle", policy: three(u, nil), killIn: 1,
			script: []step{hang, ok}, want: retry.ReasonSuccess, attempts: 2},
		{name: "killed in the middle of a later attempt", policy: three(u, nil), killIn: 2,
			script: []step{boom, hang, ok}, want: retry.ReasonSuccess, attempts: 3},
		{name: "killed in the last attempt", policy: two, killIn: 2,
			script: []step{boom, hang}, want: retry.ReasonExhausted, attempts: 2},
		{name: "killed in the only attempt", policy: one, killIn: 1,
			script: []step{hang}, want: retry.ReasonExhausted, attempts: 1},
		{name: "killed in the only attempt of the job's own limit", policy: three(u, nil), limit: 1,
			killIn: 1, script: []step{hang}, want: retry.ReasonExhausted, attempts: 1},
		{name: "killed under a NonRetryable policy", policy: none, killIn: 1,
			script: []step{hang}, want: retry.ReasonNonRetryable, attempts: 1},
		// The third delay is below MaxElapsed, but the job's time so far plus this delay exceeds
		// MaxElapsed.
		{name: "MaxElapsed, and a kill on the way", policy: long, killIn: 2,
			script: []step{boom, hang, boom}, want: retry.ReasonElapsed, attempts: 3},
		{name: "a panic", policy: three(u, nil), panicIn: 1,
			script: []step{panics, ok}, want: retry.ReasonSuccess, attempts: 2},
		{name: "a panic in the last attempt", policy: one, panicIn: 1,
			script: []step{panics}, want: retry.ReasonExhausted, attempts: 1},
		{name: "the worker stops", policy: three(u, nil), stopIn: 1,
			script: []step{hang, ok}, want: retry.ReasonSuccess, attempts: 2},
		stopped,
	}
}

// limitRows returns the rows whose jobs succeed or reach a limit on attempts.
func limitRows(u time.Duration) []row {
	jittered := three(u, func(p *retry.Policy) { p.Jitter = retry.EqualJitter })
	undelayed := three(u, func(p *retry.Policy) { p.Backoff = nil })
	unlimited := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Millisecond)}
	capped := three(u, func(p *retry.Policy) { p.AttemptCap = 2 })
	none := three(u, func(p *retry.Policy) { p.NonRetryable = true })
	return []row{
		{name: "success", policy: three(u, nil),
			script: []step{ok}, want: retry.ReasonSuccess, attempts: 1},
		{name: "fails twice, then succeeds", policy: jittered,
			script: []step{boom, boom, ok}, want: retry.ReasonSuccess, attempts: 3},
		{name: "exhausted", policy: three(u, nil),
			script: []step{boom}, want: retry.ReasonExhausted, attempts: 3},
		{name: "delays", policy: retry.Policy{MaxAttempts: 4, Backoff: retry.Schedule{u, 2 * u, 3 * u}},
			script: []step{boom}, want: retry.ReasonExhausted, attempts: 4},
		{name: "no delay", policy: undelayed,
			script: []step{boom}, want: retry.ReasonExhausted, attempts: 3},
		{name: "more attempts than the queue's default", policy: unlimited,
			script: append(times(27, boom), ok), want: retry.ReasonSuccess, attempts: 28},
		{name: "the job's limit is below the policy's", policy: three(u, nil), limit: 2,
			script: []step{boom}, want: retry.ReasonExhausted, attempts: 2},
		{name: "the job's limit is above the policy's", policy: three(u, nil), limit: 50,
			script: []step{boom}, want: retry.ReasonExhausted, attempts: 3},
		{name: "AttemptCap", policy: capped, limit: 3,
			script: []step{boom}, want: retry.ReasonExhausted, attempts: 2},
		{name: "NonRetryable", policy: none,
			script: []step{boom}, want: retry.ReasonNonRetryable, attempts: 1},
	}
}

// errorRows returns the rows in which the error of an attempt decides what happens.
func errorRows(e Engine) []row {
	u := e.Unit
	rejecting := three(u, func(p *retry.Policy) {
		p.RetryIf = func(err error) bool { return !errors.Is(err, errBoom) }
	})
	classified := three(u, func(p *retry.Policy) {
		p.Classify = func(error) *retry.Class {
			//retry:vet-ignore policyliteral the row tests this Class
			return &retry.Class{MaxAttempts: 2, Backoff: retry.Fixed(2 * u)}
		}
	})
	invalid := three(u, func(p *retry.Policy) {
		p.Classify = func(error) *retry.Class {
			return &retry.Class{MaxDelay: -1} //retry:vet-ignore policyliteral the row tests this Class
		}
	})
	// The first failure has no class, and the second failure has the class "slow". If the queue does
	// not store a count for each class, both failures count for the class "slow", and the limit of 2
	// for this class is reached.
	counted := row{
		name: "a class with a count of its own", policy: three(u, func(p *retry.Policy) {
			p.MaxAttempts, p.Classify = 5, func(err error) *retry.Class {
				if errors.Is(err, errSlow) {
					return &retry.Class{Name: "slow", MaxAttempts: 2, Backoff: retry.Fixed(2 * u)}
				}
				return nil
			}
		}), script: []step{boom, fails(errSlow)}, want: retry.ReasonExhausted, attempts: 2,
	}
	if e.Classes {
		counted.attempts, counted.says = 3, `(2 of "slow")`
	}
	return []row{
		{name: "Permanent", policy: three(u, nil),
			script: []step{boom, permanently(errBoom)}, want: retry.ReasonPermanent, attempts: 2},
		{name: "errors with control characters and invalid UTF-8", policy: three(u, nil),
			script: []step{fails(errStrange), permanently(errStrange)},
			want:   retry.ReasonPermanent, attempts: 2},
		{name: "errors of 1 MiB", policy: three(u, nil),
			script: []step{fails(errLong), permanently(errLong)}, want: retry.ReasonPermanent, attempts: 2},
		{name: "RetryIf", policy: rejecting,
			script: []step{fails(errors.New("passes")), boom}, want: retry.ReasonRejected, attempts: 2},
		{name: "a class", policy: classified,
			script: []step{boom}, want: retry.ReasonExhausted, attempts: 2},
		counted,
		{name: "a class that is invalid", policy: invalid,
			script: []step{boom}, want: retry.ReasonInvalid, attempts: 1},
	}
}

// timeRows returns the rows in which a time limit or a Budget decides what happens.
func timeRows(u time.Duration) []row {
	impatient := three(u, func(p *retry.Policy) { p.MaxRetryAfter = u })
	// The second delay is below MaxElapsed, but the job's time so far plus this delay exceeds
	// MaxElapsed.
	elapsed := retry.Policy{MaxElapsed: time.Hour, Backoff: retry.Schedule{u, time.Hour - u/2}}
	poor := three(u, func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 1} })
	quick := three(u, func(p *retry.Policy) {
		p.AttemptTimeout, p.MaxAttempts = 50*time.Millisecond, 2
	})
	return []row{
		{name: "After, within MaxRetryAfter", policy: three(u, nil),
			script: []step{after(3 * u), ok}, want: retry.ReasonSuccess, attempts: 2},
		{name: "After, always", policy: three(u, nil),
			script: []step{after(u)}, want: retry.ReasonExhausted, attempts: 3},
		{name: "After, beyond MaxRetryAfter", policy: impatient,
			script: []step{after(24 * time.Hour)}, want: retry.ReasonRetryAfter, attempts: 1},
		{name: "After, of five hours", policy: retry.Default(),
			script: []step{after(5 * time.Hour)}, want: retry.ReasonRetry, attempts: 1},
		{name: "MaxElapsed", policy: elapsed,
			script: []step{boom}, want: retry.ReasonElapsed, attempts: 2},
		{name: "an empty Budget", policy: poor,
			script: []step{boom}, want: retry.ReasonBudget, attempts: 2},
		{name: "AttemptTimeout", policy: quick,
			script: []step{hang}, want: retry.ReasonExhausted, attempts: 2},
	}
}

// endsProcess reports whether the process of a worker is killed or panics in the row r.
func (r row) endsProcess() bool { return r.killIn > 0 || r.panicIn > 0 }

func rowOf(e Engine, name string) (row, error) {
	for _, r := range table(e) {
		if r.name == name {
			return r, nil
		}
	}
	return row{}, fmt.Errorf("the table has no row %q", name)
}
