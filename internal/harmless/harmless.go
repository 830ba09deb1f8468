// Package harmless finds errors whose methods panic, before they reach code that must not
// panic. For example, a driver returns a nil pointer of its error type as an error. Such an
// error is not nil, and its methods panic.
package harmless

import (
	"context"
	"errors"
	"fmt"
)

// Or returns the result of ask, or other if ask panics. A question about an error must not end
// the program if a method of the error panics.
func Or[T any](other T, ask func() T) (answer T) {
	defer func() {
		if recover() != nil {
			answer = other
		}
	}()
	return ask()
}

// Ask calls err.Error, errors.Is with err, and then ask, which may call other methods of err and
// of the errors in its tree. If a method panics, Ask returns an error to use in place of err. Its
// text starts with pkg and contains the type of err and the panic. Otherwise Ask returns nil.
// Ask calls nothing if err is nil.
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
