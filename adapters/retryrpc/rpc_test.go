package retryrpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
)

// TestDeadlineOfTheServer tests that Do distinguishes two servers: one that gives
// up when the context's whole milliseconds are over, and one whose own deadline
// is shorter.
func TestDeadlineOfTheServer(t *testing.T) {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(0)}
	for _, row := range []struct {
		name   string
		code   uint32
		after  time.Duration // when the answer comes
		over   time.Duration // when Do returns
		reason retry.Reason
	}{
		{"part of a millisecond before", deadlineExceeded, time.Second - time.Millisecond + 1, time.Second, retry.ReasonDeadline},
		{"a millisecond before", deadlineExceeded, time.Second - time.Millisecond, time.Second - time.Millisecond, retry.ReasonPermanent},
		{"another code", resourceExhausted, time.Second - 1, time.Second - 1, retry.ReasonPermanent},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				start, attempts := time.Now(), 0
				err := Do(ctx, policy, Target{Own: new(retry.Budgets)}, func(context.Context, int) Failure {
					attempts++
					time.Sleep(row.after)
					return Failure{Err: errors.New("no answer in time"), Code: row.code}
				}, func(err error) error { return err })
				assert.Equal(t, row.reason, retry.ReasonOf(err))
				assert.Equal(t, row.reason == retry.ReasonPermanent, retry.IsPermanent(err))
				assert.Equal(t, 1, attempts)
				assert.Equal(t, row.over, time.Since(start))
			})
		})
	}
}

// The texts with which the implementations refuse a message that is too large.
func TestTextsOfAMessageThatIsTooLarge(t *testing.T) {
	for text, want := range map[string]bool{
		"grpc: received message larger than max (200 vs. 10)":           true,
		"grpc: message after decompression larger than max 10":          true,
		"grpc: message too large (4294967296 bytes)":                    true,
		"CLIENT: Sent message larger than max (200 vs. 10)":             true, // C core
		"gRPC message exceeds maximum size 4194304: 5000000":            true, // grpc-java
		"Decompressed gRPC message exceeds maximum size 4194304":        true,
		"Received message exceeds the maximum configured message size.": true, // grpc-dotnet
		"Sending message exceeds the maximum configured message size.":  true,
		"Attempted to send message with a size larger than 10":          true, // grpc-js
		"Received message that decompresses to a size larger than 10":   true,
		"message size 200 is larger than configured max 10":             true, // connect-go
		"message size 200 exceeds sendMaxBytes 10":                      true,
		"message size 200 is larger than configured readMaxBytes 10":    true, // connect-es
		"message size 200 is larger than configured writeMaxBytes 10":   true,
		"the quota of 10 messages per minute is used up":                false,
		"Too many concurrent requests":                                  false,
	} {
		err := Failure{Err: errors.New(text), Code: resourceExhausted, Retryable: true}.Mark()
		assert.Equal(t, want, retry.IsPermanent(err), text)
	}
}

// A timeout is retried under an AttemptTimeout, unless something else forbids it.
func TestFinalTimeout(t *testing.T) {
	for final, want := range map[string]int{"": 3, "its headers were read": 1} {
		attempts := 0
		err := Do(t.Context(), retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Hour}, Target{Own: new(retry.Budgets)}, func(context.Context, int) Failure {
			attempts++
			return Failure{Err: errors.New("no answer in time"), Code: deadlineExceeded, Final: final}
		}, func(err error) error { return err })
		assert.Equal(t, want, attempts)
		assert.Equal(t, final != "", retry.IsPermanent(err))
	}
}

// A failure that shows that the server works puts Ratio of a retry back, as a 404 does in HTTP.
func TestAFailureOfAWorkingServerRefillsTheBudget(t *testing.T) {
	down, healthy := errors.New("down"), map[uint32]bool{3: true, 5: true, 6: true, 7: true, 9: true, 10: true, 11: true, 16: true}
	for code := range uint32(18) {
		for name, f := range map[string]Failure{
			"":            {Code: code, Err: down},
			", retryable": {Code: code, Err: down, Retryable: true},
			", waits":     {Code: code, Err: down, Named: true},
			", pushes":    {Code: code, Err: down, Pushback: []string{"-1"}},
			", no error":  {Code: code},
		} {
			budget := &retry.Budget{Size: 8, Ratio: 1}
			for range 5 {
				budget.Take()
			}
			want := 3
			if healthy[code] && (name == "" || name == ", retryable") || name == ", no error" {
				want = 4
			}
			_ = Do(t.Context(), retry.Policy{MaxAttempts: 1, Budget: budget}, Target{Own: new(retry.Budgets)}, func(context.Context, int) Failure { return f }, func(err error) error { return err })
			assert.Equal(t, want, budget.Left(), "code %d%s", code, name)
		}
	}
}

// endless has a deadline but never ends.
type endless struct{ context.Context }

func (endless) Done() <-chan struct{} { return nil }
func (endless) Err() error            { return nil }

func TestDeadlineOfAContextThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		start := time.Now()
		err := Do(endless{ctx}, retry.Policy{}, Target{Own: new(retry.Budgets)}, func(context.Context, int) Failure {
			time.Sleep(time.Millisecond - 1)
			return Failure{Err: errors.New("no answer in time"), Code: deadlineExceeded}
		}, func(err error) error { return err })
		assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
		assert.Equal(t, time.Millisecond-1, time.Since(start))
	})
}

// If neither the policy nor Budgets has a Budget for a call, its target has one. A retry that
// was paid for but not made is given back.
func TestBudgetOfACall(t *testing.T) {
	var own retry.Budgets
	of := func(target string) *retry.Budget {
		budget, done := own.For(target)
		done()
		return budget
	}
	users := &retry.Budget{Size: 9}
	for name, row := range map[string]struct {
		policy retry.Policy
		target Target
		budget *retry.Budget
	}{
		"the budget of the target":        {retry.Policy{}, Target{Name: "a:1", Own: &own}, of("a:1")},
		"the budget of another target":    {retry.Policy{}, Target{Name: "b:1", Own: &own}, of("b:1")},
		"the budget of the policy":        {retry.Policy{Budget: users}, Target{Name: "a:1", Own: &own}, users},
		"the budget that Budgets returns": {retry.Policy{}, Target{Name: "a:1", Own: &own, Budgets: func(string) *retry.Budget { return users }}, users},
	} {
		t.Run(name, func(t *testing.T) {
			row.policy.MaxAttempts = 4
			before := row.budget.Left()
			for _, unsent := range []bool{false, true} {
				_ = Do(t.Context(), row.policy, row.target, func(_ context.Context, number int) Failure {
					return Failure{Err: errors.New("boom"), Retryable: number < 3, Unsent: unsent && number == 3}
				}, nil)
			}
			assert.Equal(t, before-3, row.budget.Left())
		})
	}
}

// If Do did not report the end of a call to the Budgets, they would keep its target forever.
func TestATargetIsForgottenWhenItsCallsHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var own retry.Budgets
		for i := range 1000 {
			err := Do(t.Context(), retry.Policy{}, Target{Name: fmt.Sprint("host", i), Own: &own}, func(context.Context, int) Failure {
				return Failure{}
			}, func(err error) error { return err })
			assert.NoError(t, err)
		}
		time.Sleep(10 * time.Second)
		budget, done := own.For("another")
		defer done()
		assert.Equal(t, "another", budget.Name)
	})
}

func TestMilliseconds(t *testing.T) {
	for n, want := range map[int64]time.Duration{
		math.MinInt64: 0, -1: 0, 0: 0, 1: time.Millisecond, 45_800: 45*time.Second + 800*time.Millisecond,
		9_223_372_036_854:     9_223_372_036_854 * time.Millisecond,
		9_223_372_036_854 + 1: math.MaxInt64, math.MaxInt64: math.MaxInt64,
	} {
		assert.Equal(t, want, Milliseconds(n), n)
	}
}
