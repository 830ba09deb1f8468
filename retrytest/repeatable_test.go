package retrytest_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry/retrytest"
)

func TestRepeatable(t *testing.T) {
	body, ids, sum := strings.NewReader("ten euros"), []int(nil), 100
	pipe, in := io.Pipe()
	go func() { _, _ = io.WriteString(in, "ten euros"); _ = in.Close() }()
	for _, row := range []struct {
		name   string
		fn     func() (any, error)
		errors []string
		runs   int
	}{
		{"the same value each time", func() (any, error) { return []int{1, 2}, nil }, nil, 2},
		{"no value", func() (any, error) { return nil, nil }, nil, 2},
		{"a reader that is consumed", func() (any, error) {
			text, err := io.ReadAll(body)
			return string(text), err
		}, []string{`retrytest: the first run returned "ten euros", and the second run ""`}, 2},
		{"a slice that is appended to", func() (any, error) {
			ids = append(ids, 7)
			return ids, nil
		}, []string{"retrytest: the first run returned []int{7}, and the second run []int{7, 7}"}, 2},
		{"a sum that is added to", func() (any, error) { sum += 10; return sum, nil },
			[]string{"retrytest: the first run returned 110, and the second run 120"}, 2},
		{"a pipe that is closed", func() (any, error) {
			_, err := io.ReadAll(pipe)
			return nil, errors.Join(err, pipe.Close())
		}, []string{"retrytest: the first run succeeded, and the second run failed: io: read/write on closed pipe"}, 2},
		{"a first run that fails", func() (any, error) { return nil, errDown }, []string{"retrytest: the first run failed: connection refused"}, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			r, runs := &recorder{TB: t}, 0
			retrytest.Repeatable(r, func(ctx context.Context) (any, error) {
				runs++
				assert.Equal(t, t.Context(), ctx)
				return row.fn()
			})
			assert.Equal(t, row.errors, r.failures)
			assert.Equal(t, row.runs, runs)
		})
	}
}

// In a test function, pass the *testing.T as t. The operation is wrong on purpose. It reads its
// body to the end, so a retry would send an empty body.
func ExampleRepeatable() {
	body := strings.NewReader("one teapot")
	received := ""
	order := func(context.Context) error { // the function for retry.Do
		text, err := io.ReadAll(body)
		received = string(text) // stands for a request to a server
		return err
	}

	retrytest.Repeatable(printing{}, func(ctx context.Context) (string, error) {
		err := order(ctx)
		return received, err
	})
	// Output:
	// retrytest: the first run returned "one teapot", and the second run ""
}

// printing is a testing.TB that prints errors.
type printing struct{ printer }

func (printing) Context() context.Context { return context.Background() }
