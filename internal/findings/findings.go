// Package findings makes of the faults of package strict findings of package retry.
package findings

import (
	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/strict"
)

// An Error is an error of package strict whose faults are findings.
type Error struct{ err *strict.Error }

func (e Error) Error() string { return e.err.Error() }

func (e Error) Unwrap() error { return e.err }

// Findings returns what is wrong, each with the same text in Go and in keys.
func (e Error) Findings() (found []retry.Finding) {
	for _, f := range e.err.Faults {
		found = append(found, retry.Finding{Code: f.Code, Key: f.Key}.WithText(f.Text))
	}
	return found
}

// Of returns err with the method Findings if it is an error of package strict, and
// otherwise err.
func Of(err error) error {
	if e, ok := err.(*strict.Error); ok {
		return Error{e}
	}
	return err
}

// Within adds to f what is wrong with the policy at a key.
func Within(f *strict.Faults, key string, err *retry.PolicyError) {
	for _, found := range err.Findings() {
		f.Inner(key, strict.Finding{Code: found.Code, Key: found.Key, Text: found.InKeys()})
	}
}
