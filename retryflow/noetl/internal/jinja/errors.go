package jinja

import (
	"fmt"
	"strconv"
)

// The parser and an evaluation panic with a failure if they cannot go on. The function `try` turns
// a failure into an error.
type failure struct{ error }

func failf(format string, args ...any) failure { return failure{fmt.Errorf(format, args...)} }

// try calls f. If f panics with a failure, `try` returns the error in the failure.
func try(f func()) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case failure:
			err = v.error
		default:
			panic(v)
		}
	}()
	f()
	return nil
}

// wrong returns an error about the value v. If v is undefined, the error names the missing name or
// key. Otherwise the error has the formatted text.
func wrong(v Value, format string, args ...any) failure {
	if u, ok := v.(*undefined); ok {
		return u.err()
	}
	return failf(format, args...)
}

func (u *undefined) err() failure { return failure{&UndefinedError{u.name}} }

// An UndefinedError is the error of an evaluation that needs a missing name or key.
type UndefinedError struct{ name string }

func (e *UndefinedError) Error() string {
	return e.name + ` is undefined: ask "is defined" first, or add "| default(…)"`
}

// kind returns a description of v for the text of an error.
func kind(v Value) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return formatFloat(v)
	case string:
		return fmt.Sprintf("text %.40q", v)
	case markup:
		return "the text of tojson"
	case sequence:
		return "a list"
	case mapping:
		return "a mapping"
	case goValue:
		return "a value of Go's type " + v.v.Type().String()
	default:
		return "nothing"
	}
}
