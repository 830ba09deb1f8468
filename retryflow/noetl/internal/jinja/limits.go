package jinja

import (
	"fmt"
	"math/big"
)

// The bounds of one template, and of one evaluation of one.
const (
	maxSource  = 8 << 10 // bytes of a template
	maxNesting = 100     // brackets, operators and values, one within another
	maxSteps   = 200_000 // operations, and members of lists looked at
	maxSize    = 4 << 20 // bytes of all texts, and 16 for each member of all lists, that an evaluation makes
	maxBits    = 4096    // of a whole number: about 1,200 digits
)

// An evaluation is one evaluation of an expression: the names that it knows,
// and what it has used of its bounds.
type evaluation struct {
	lookup func(name string) (any, bool)
	rand   func() float64
	steps  int
	size   int
}

// step counts n operations.
func (e *evaluation) step(n int) error {
	if e.steps += n; e.steps > maxSteps || n > maxSteps {
		return fmt.Errorf("it takes more than %d steps", maxSteps)
	}
	return nil
}

// grow counts n bytes that are about to be made.
func (e *evaluation) grow(n int) error {
	if n > maxSize || e.size+n > maxSize {
		return fmt.Errorf("it makes values of more than %d bytes", maxSize)
	}
	e.size += n
	return e.step(n / 1024)
}

// memberSize is what a member of a list costs.
const memberSize = 16

// text returns s, and counts its bytes.
func (e *evaluation) text(s string) (Value, error) {
	if err := e.grow(len(s)); err != nil {
		return nil, err
	}
	return s, nil
}

// integer returns n unless it has too many digits.
func integer(n *big.Int) (Value, error) {
	if n.BitLen() > maxBits {
		return nil, fmt.Errorf("a number has more than %d bits", maxBits)
	}
	return n, nil
}

// deep returns an error where values are nested too deep.
func deep(depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("a value is nested more than %d deep, or contains itself", maxNesting)
	}
	return nil
}
