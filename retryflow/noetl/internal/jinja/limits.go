package jinja

import "fmt"

// The limits of a template and of one evaluation.
const (
	maxSource  = 8 << 10 // bytes of a template
	maxNesting = 100     // levels of brackets, operators and values

	// maxSteps is a number of operations. A member of a list that is read or compared counts
	// as an operation, and so do 256 bytes of a text that is read.
	maxSteps = 200_000

	// maxSize is the bytes of all texts that an evaluation makes. A member of a list that it
	// makes counts as 16 bytes.
	maxSize = 4 << 20
)

// An evaluation is one evaluation of an expression. It holds the names of the expression, and
// how much of the limits has been used.
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

// growTimes counts n bytes a number of times.
func (e *evaluation) growTimes(n, times int) {
	if n > 0 {
		times = min(times, maxSize/n+1) // so that the product cannot overflow
	}
	e.grow(n * times)
}

// read counts n bytes of a text before an operation reads them all. Without it, an operation
// would count the same for a long text as for a short text.
func (e *evaluation) read(n int) { e.step(n / 256) }

// memberSize is how many bytes a member of a list counts.
const memberSize = 16

// text counts the bytes of s, and returns s.
func (e *evaluation) text(s string) Value {
	e.grow(len(s))
	return s
}

// visit counts a value at a depth of nesting.
func (e *evaluation) visit(depth int) {
	deep(depth)
	e.step(1)
}

// deep fails if the depth of nesting exceeds maxNesting.
func deep(depth int) {
	if depth > maxNesting {
		panic(failf("a value is nested more than %d deep, or contains itself", maxNesting))
	}
}

// A failure is the value of a panic with which the parser or an evaluation ends with an error.
type failure struct{ error }

func failf(format string, args ...any) failure { return failure{fmt.Errorf(format, args...)} }

// try calls f, and returns the error if f panics with a failure.
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
