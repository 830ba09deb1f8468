package retrylog

import (
	"fmt"
	"strconv"
	"time"
)

// textOf returns the text of an error. It uses fmt.Sprint, which does not panic if err is a nil
// pointer whose Error method panics.
func textOf(err error) string { return fmt.Sprint(err) }

// sameText reports whether a and b are errors with the same text.
func sameText(a, b error) bool { return a != nil && b != nil && textOf(a) == textOf(b) }

func quoted(err error) string { return strconv.Quote(textOf(err)) }

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// A textError is an error with a text that is safe to print on a terminal.
type textError struct {
	text string
	err  error
}

func (e *textError) Error() string { return e.text }

func (e *textError) Unwrap() error { return e.err }
