package harmless_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry/internal/harmless"
)

// A panicker is an error with one method that panics.
type panicker struct{ in string }

func (e panicker) method(name string) {
	if e.in == name {
		panic("bug in " + name)
	}
}

func (e panicker) Error() string { e.method("Error"); return "fine" }
func (e panicker) Is(error) bool { e.method("Is"); return false }
func (e panicker) Unwrap() error { e.method("Unwrap"); return nil }
func (e panicker) Own() bool     { e.method("Own"); return true }

func own(err error) {
	var e interface{ Own() bool }
	_ = errors.As(err, &e) && e.Own()
}

func TestAskFindsThePanic(t *testing.T) {
	for _, method := range []string{"Error", "Is", "Unwrap", "Own"} {
		for name, err := range map[string]error{
			"bare":   panicker{method},
			"joined": errors.Join(errors.New("first"), panicker{method}),
		} {
			t.Run(method+"/"+name, func(t *testing.T) {
				assert.EqualError(t, harmless.Ask("retryx", err, own), fmt.Sprintf("retryx: error of type %T panicked: bug in %s", err, method))
			})
		}
	}
}

func TestAskLeavesOthersAlone(t *testing.T) {
	asked := 0
	ask := func(error) { asked++ }
	assert.NoError(t, harmless.Ask("retryx", panicker{}, ask))
	assert.NoError(t, harmless.Ask("retryx", panicker{"Own"}, ask), "Ask does not call Own, which would panic")
	assert.Equal(t, 2, asked)
	assert.NoError(t, harmless.Ask("retryx", nil, ask))
	assert.Equal(t, 2, asked, "a nil error has no methods")
}

func TestAskOfANilPointer(t *testing.T) {
	var err *pointer
	assert.ErrorContains(t, harmless.Ask("retryx", err, own), "retryx: error of type *harmless_test.pointer panicked: runtime error: invalid memory address")
}

type pointer struct{ text string }

func (e *pointer) Error() string { return e.text }

func TestOr(t *testing.T) {
	for _, row := range []struct {
		name string
		err  error
		want string
	}{
		{"an error", errors.New("refused"), "refused"},
		{"nil, which has no methods", nil, "unknown"},
		{"a panic of a method", panicker{"Error"}, "unknown"},
	} {
		t.Run(row.name, func(t *testing.T) {
			assert.Equal(t, row.want, harmless.Or("unknown", func() string { return row.err.Error() }))
		})
	}
}
