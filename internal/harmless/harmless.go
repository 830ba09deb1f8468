// Package harmless finds errors whose own methods panic, before they reach code
// that must not panic. An example is a nil pointer to a driver's error type that
// was returned as an error, which is then not nil.
package harmless

import (
	"context"
	"errors"
	"fmt"
)

// Or returns what ask returns, or other if ask panics: a method of an error that it
// calls may do that, and a question about an error must not end the program.
func Or[T any](other T, ask func() T) (answer T) {
	defer func() {
		if recover() != nil {
			answer = other
		}
	}()
	return ask()
}

// Ask calls the methods of err that return its text and say whether it is the end
// of a context, and then calls ask, with which the caller can call others. If one
// of them panics, Ask returns an error that says so and names err's type, for the
// caller to use in place of err. Its text begins with pkg. Otherwise Ask returns
// nil.
func Ask(pkg string, err error, ask func(error)) (panicked error) {
	defer func() {
		if p := recover(); p != nil {
			panicked = fmt.Errorf("%s: error of type %T panicked: %v", pkg, err, p)
		}
	}()
	if err == nil {
		return nil
	}
	_ = err.Error()
	_ = errors.Is(err, context.Canceled)
	ask(err)
	return nil
}
