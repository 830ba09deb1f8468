package retry_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// These types contain an error in different ways.
type (
	wrapsOne  struct{ err error }
	wrapsMany []error
	hasAs     struct{ err error }
	waits5s   struct{}
	waitsZero struct{ err error }
	asNothing struct{}
)

func (e wrapsOne) Error() string              { return "one" }
func (e wrapsOne) Unwrap() error              { return e.err }
func (e wrapsMany) Error() string             { return "many" }
func (e wrapsMany) Unwrap() []error           { return e }
func (e hasAs) Error() string                 { return "as" }
func (e hasAs) As(target any) bool            { return errors.As(e.err, target) }
func (waits5s) Error() string                 { return "busy" }
func (waits5s) RetryAfter() time.Duration     { return 5 * time.Second }
func (e waitsZero) Error() string             { return "busy" }
func (e waitsZero) Unwrap() error             { return e.err }
func (e waitsZero) RetryAfter() time.Duration { return 0 }
func (asNothing) Error() string               { return "nothing" }
func (asNothing) As(any) bool                 { return true }

func TestWrappedErrors(t *testing.T) {
	permanent, after := retry.Permanent(errDial), retry.After(5*time.Second, errDial)
	inner := func(p retry.Policy, err error) error { return retry.Do(t.Context(), p, failWith(err)) }
	for name, row := range map[string]struct {
		err       error
		permanent bool
		hint      time.Duration
	}{
		"none":                                         {errDial, false, 0},
		"Permanent":                                    {permanent, true, 0},
		"Permanent in fmt.Errorf":                      {fmt.Errorf("get: %w", permanent), true, 0},
		"Permanent in Unwrap() error":                  {wrapsOne{permanent}, true, 0},
		"Permanent in Unwrap() []error":                {wrapsMany{nil, errShutdown, wrapsMany{permanent}}, true, 0},
		"Permanent in As(any) bool":                    {hasAs{permanent}, true, 0},
		"Permanent of fmt.Errorf with %v":              {fmt.Errorf("get: %v", permanent), false, 0},
		"After":                                        {after, false, 5 * time.Second},
		"After in Unwrap() []error":                    {wrapsMany{nil, errShutdown, wrapsMany{after}}, false, 5 * time.Second},
		"After in As(any) bool":                        {hasAs{after}, false, 5 * time.Second},
		"an error with RetryAfter":                     {waits5s{}, false, 5 * time.Second},
		"After in Permanent":                           {retry.Permanent(after), true, 5 * time.Second},
		"Permanent in After":                           {retry.After(5*time.Second, permanent), true, 5 * time.Second},
		"Permanent next to After":                      {errors.Join(after, permanent), true, 5 * time.Second},
		"the outer of two Afters applies":              {retry.After(9*time.Second, after), false, 9 * time.Second},
		"the first of two joined Afters applies":       {errors.Join(retry.After(time.Second, errDial), after), false, time.Second},
		"After around As(any) bool: the outer applies": {retry.After(time.Second, hasAs{after}), false, time.Second},
		"After of zero has no effect":                  {retry.After(0, errDial), false, 0},
		"After below zero has no effect":               {retry.After(-time.Second, errDial), false, 0},
		"After of zero leaves the inner After":         {retry.After(0, after), false, 5 * time.Second},
		"RetryAfter of zero leaves the inner After":    {waitsZero{after}, false, 5 * time.Second},
		"a typed nil *Error":                           {(*retry.Error)(nil), false, 0},
		"a typed nil *Error next to After":             {errors.Join((*retry.Error)(nil), after), false, 5 * time.Second},
		"an Unwrap that returns nil errors":            {wrapsMany{nil, nil}, false, 0},
		"an As that is always true":                    {asNothing{}, true, 0},
		"an Error":                                     {&retry.Error{Reason: retry.ReasonExhausted, Err: errDial}, false, 0},
		"an Error of Permanent":                        {&retry.Error{Reason: retry.ReasonPermanent, Err: permanent}, true, 0},
		"an Error of After":                            {&retry.Error{Reason: retry.ReasonExhausted, Err: after}, false, 5 * time.Second},
		"an Error with ReasonInvalid":                  {&retry.Error{Reason: retry.ReasonInvalid, Err: errDial}, true, 0},
		"an Error with ReasonInvalid, wrapped":         {fmt.Errorf("get: %w", errors.Join(errShutdown, &retry.Error{Reason: retry.ReasonInvalid})), true, 0},
		"an Error with ReasonInvalid, in an Error":     {&retry.Error{Reason: retry.ReasonExhausted, Err: &retry.Error{Reason: retry.ReasonInvalid}}, true, 0},
		"an Error whose Cause is Permanent":            {&retry.Error{Reason: retry.ReasonCanceled, Err: errDial, Cause: permanent}, false, 0},
		"an Error whose Cause is After":                {&retry.Error{Reason: retry.ReasonCanceled, Err: errDial, Cause: after}, false, 0},
		"an Error whose Cause has ReasonInvalid":       {&retry.Error{Reason: retry.ReasonCanceled, Cause: &retry.Error{Reason: retry.ReasonInvalid}}, false, 0},
		"an inner call that failed with After":         {fmt.Errorf("get: %w", inner(retry.Policy{}, after)), false, 5 * time.Second},
		"an inner call that was invalid, found by As":  {hasAs{inner(retry.Policy{MaxAttempts: -2}, errDial)}, true, 0},
		"an inner call, found by As":                   {hasAs{inner(retry.Policy{}, errDial)}, false, 0},
		"Permanent around the error of an inner call":  {retry.Permanent(inner(retry.Policy{}, errDial)), true, 0},
	} {
		everyWay(t, name, func(t *testing.T, call caller) {
			want := retry.ReasonExhausted
			if row.permanent {
				want = retry.ReasonPermanent
			}
			start := time.Now()
			e := stopped(t, call(t.Context(), retry.Policy{MaxAttempts: 2}, failWith(row.err)))
			assert.Equal(t, want, e.Reason)
			assert.Equal(t, row.hint, e.Delay)
			if !row.permanent {
				assert.Equal(t, row.hint, time.Since(start))
			}
			assert.Equal(t, row.permanent, retry.IsPermanent(row.err))
			assert.Equal(t, row.hint, retry.RetryAfterOf(row.err))
		})
	}
	t.Run("a wrapper changes neither the text nor what errors.Is and errors.As find", func(t *testing.T) {
		for _, marked := range []error{permanent, after, retry.Permanent(after), retry.After(1, permanent)} {
			assert.EqualError(t, marked, errDial.Error())
			assert.ErrorIs(t, marked, errDial)
			assert.NotErrorIs(t, marked, errShutdown)
		}
		var found *statusError
		require.ErrorAs(t, retry.Permanent(retry.After(1, &statusError{503})), &found)
		assert.Equal(t, 503, found.code)
	})
	t.Run("nil stays nil", func(t *testing.T) {
		assert.NoError(t, retry.Permanent(nil))
		assert.NoError(t, retry.After(time.Second, nil))
		assert.False(t, retry.IsPermanent(nil))
		assert.Zero(t, retry.RetryAfterOf(nil))
	})
	t.Run("the error of After has a method RetryAfter", func(t *testing.T) {
		var hint interface{ RetryAfter() time.Duration }
		require.ErrorAs(t, after, &hint)
		assert.Equal(t, 5*time.Second, hint.RetryAfter())
	})
}
