package retryhttp_test

import (
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// A clone has all the fields, and its own ones: a field that Clone does not know fails here.
func TestCloneHasAllFields(t *testing.T) {
	full := &retryhttp.Transport{
		Base: http.DefaultTransport, Policy: retry.Default(), Budgets: retryhttp.NoBudgets, Idempotent: retryhttp.Idempotent,
		Prepare: func(*http.Request, int, error) error { return nil }, Check: retryhttp.Check, Advise: retryhttp.AdviceOf,
		StallTimeout: time.Second, Gate: new(retryhttp.Gate), Resume: true,
	}
	of, clone := reflect.ValueOf(full).Elem(), reflect.ValueOf(full.Clone()).Elem()
	for i := range of.NumField() {
		field := of.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		assert.False(t, of.Field(i).IsZero(), "%s is not set here", field.Name)
		if field.Type.Kind() == reflect.Func {
			assert.Equal(t, of.Field(i).Pointer(), clone.Field(i).Pointer(), field.Name)
		} else {
			assert.Equal(t, of.Field(i).Interface(), clone.Field(i).Interface(), field.Name)
		}
	}
}

// A Transport, its clone and a clone of that share what a target has left, and nothing else.
func TestCloneSharesTheBudgetsOfTargets(t *testing.T) {
	original := &retryhttp.Transport{Base: script(errReset), Policy: retry.Policy{MaxAttempts: 5}}
	clone := original.Clone()
	again := clone.Clone()
	again.Policy.MaxAttempts = 1
	assert.Equal(t, 5, original.Policy.MaxAttempts)
	for _, tr := range []*retryhttp.Transport{clone, original, again} {
		_, err := tr.RoundTrip(request(t, "GET"))
		assert.ErrorIs(t, err, errReset)
	}
	budget := original.TargetBudget(request(t, "GET"))
	assert.Equal(t, 2, budget.Left())
	assert.Same(t, budget, clone.TargetBudget(request(t, "GET")))
	assert.Same(t, budget, again.TargetBudget(request(t, "GET")))
}
