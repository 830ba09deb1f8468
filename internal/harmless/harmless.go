// Package harmless calls methods of errors, and recovers if a method panics. For example, a
// driver may return a nil pointer of its error type as an error. This error is not nil, and its
// methods panic.
package harmless

import (
	"context"
	"errors"
	"fmt"
)

// The function Or calls `ask` and returns its result. If `ask` panics, Or returns `other`. So a
// panic in a method of an error does not end the program.
func Or[T any](other T, ask func() T) (answer T) {
	defer func() {
		if recover() != nil {
			answer = other
		}
	}()
	return ask()
}

// Ask calls err.Error, then errors.Is with err, and then the function `ask`, which may call other
// methods of err and of the errors in its tree. If one of these calls panics, Ask returns an error
// to use in place of err. The text of this error starts with `pkg`, and contains the type of err
// and the value of the panic. If nothing panics, Ask returns nil. If err is nil, Ask calls nothing.
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
