package retrytest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry/retrytest"
)

// A witness is a testing.TB that records errors.
type witness struct {
	testing.TB
	errors []string
}

func (w *witness) Helper() {}
func (w *witness) Errorf(format string, args ...any) {
	w.errors = append(w.errors, fmt.Sprintf(format, args...))
}

func TestRepeatable(t *testing.T) {
	for _, row := range []struct {
		name   string
		fn     func() func(context.Context) (any, error)
		errors []string
		runs   int
	}{
		{"the same value each time", func() func(context.Context) (any, error) {
			return func(context.Context) (any, error) { return []int{1, 2}, nil }
		}, nil, 2},
		{"no value", func() func(context.Context) (any, error) {
			return func(context.Context) (any, error) { return nil, nil }
		}, nil, 2},
		{"a reader that is consumed", func() func(context.Context) (any, error) {
			r := strings.NewReader("ten euros")
			return func(context.Context) (any, error) {
				body, err := io.ReadAll(r)
				return string(body), err
			}
		}, []string{`retrytest: the first run returned "ten euros", and the second one ""`}, 2},
		{"a slice that is appended to", func() func(context.Context) (any, error) {
			var ids []int
			return func(context.Context) (any, error) {
				ids = append(ids, 7)
				return ids, nil
			}
		}, []string{"retrytest: the first run returned []int{7}, and the second one []int{7, 7}"}, 2},
		{"a second run that fails", func() func(context.Context) (any, error) {
			run := 0
			return func(context.Context) (any, error) {
				if run++; run > 1 {
					return nil, errors.New("closed")
				}
				return nil, nil
			}
		}, []string{"retrytest: the first run succeeded, and the second one failed: closed"}, 2},
		{"a first run that fails", func() func(context.Context) (any, error) {
			return func(context.Context) (any, error) { return nil, errors.New("refused") }
		}, []string{"retrytest: the first run failed: refused"}, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := &witness{TB: t}
			fn, runs := row.fn(), 0
			retrytest.Repeatable(w, func(ctx context.Context) (any, error) {
				runs++
				assert.Equal(t, t.Context(), ctx)
				return fn(ctx)
			})
			assert.Equal(t, row.errors, w.errors)
			assert.Equal(t, row.runs, runs)
		})
	}
}

// In a test function t is its *testing.T. The operation is wrong on purpose: it
// reads its body once and for all, so that a retry would send none.
func ExampleRepeatable() {
	body := strings.NewReader("one teapot")
	received := ""
	order := func(context.Context) error { // for retry.Do
		text, err := io.ReadAll(body)
		received = string(text) // a request to a server
		return err
	}

	retrytest.Repeatable(printing{}, func(ctx context.Context) (string, error) {
		err := order(ctx)
		return received, err
	})
	// Output:
	// retrytest: the first run returned "one teapot", and the second one ""
}

// printing is a testing.TB that prints errors.
type printing struct{ printer }

func (printing) Context() context.Context { return context.Background() }
