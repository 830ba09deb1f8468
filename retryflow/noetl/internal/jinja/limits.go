package jinja

import "fmt"

// These are the limits of a template and of one evaluation.
const (
	maxSource  = 8 << 10 // bytes of a template
	maxNesting = 100     // of brackets, operators and values
	maxSteps   = 200_000 // operations, members of lists that are read or compared, and quarters of a KiB of texts that are read
	maxSize    = 4 << 20 // bytes of all texts that an evaluation makes, and 16 for each member of its lists
)

// An evaluation is one evaluation of an expression: the names that the
// expression knows, and how much of the limits has been used.
type evaluation struct {
	lookup func(name string) (any, bool)
	rand   func() float64
	steps  int
	size   int
}

// step counts n operations.
func (e *evaluation) step(n int) {
	if e.steps += n; e.steps > maxSteps || n > maxSteps {
		panic(failf("it takes more than %d steps", maxSteps))
	}
}

// grow counts n bytes before they are allocated.
func (e *evaluation) grow(n int) {
	if n > maxSize || e.size+n > maxSize {
		panic(failf("it makes values of more than %d bytes", maxSize))
	}
	e.size += n
	e.read(n)
}

// growTimes counts n bytes for each of a number of times.
func (e *evaluation) growTimes(n, times int) {
	if n > 0 {
		times = min(times, maxSize/n+1) // so that the product cannot overflow
	}
	e.grow(n * times)
}

// read counts n bytes of a text before an operation looks at all of them.
// Without this, an operation on a long text would cost as much as one on a
// short one.
func (e *evaluation) read(n int) { e.step(n / 256) }

// memberSize is the number of bytes counted for a member of a list.
const memberSize = 16

// text counts the bytes of s and returns it.
func (e *evaluation) text(s string) Value {
	e.grow(len(s))
	return s
}

// visit counts a value that is nested at a depth.
func (e *evaluation) visit(depth int) {
	deep(depth)
	e.step(1)
}

// deep fails if values are nested too deep.
func deep(depth int) {
	if depth > maxNesting {
		panic(failf("a value is nested more than %d deep, or contains itself", maxNesting))
	}
}

// A failure is what the parser and an evaluation panic with to end with an error.
type failure struct{ error }

func failf(format string, args ...any) failure { return failure{fmt.Errorf(format, args...)} }

// try calls f and returns the error that it fails with.
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
