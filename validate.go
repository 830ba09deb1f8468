package retry

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Validate returns nil if p is valid. Otherwise it returns an error that names
// every fault at once, each with the field, its value and what to write instead;
// of more than 20 faults it names 20 and counts the rest. It calls none of p's
// functions. It trusts a custom Backoff or Jitter and never calls it; a pointer
// to a built-in type is treated as a custom one.
func (p Policy) Validate() error {
	if f := p.faults(); f != nil {
		return &policyError{faults: f}
	}
	return nil
}

// faults is what is wrong with a policy, a sentence each.
type faults []error

// add adds one: the field, its value, and what to write instead.
func (f *faults) add(field string, value any, write string) {
	*f = append(*f, fmt.Errorf("%s is %v: %s", field, value, write))
}

// check adds one if a field is wrong. It is generic so that a value that is right stays
// where it is: to make an any of it would allocate.
func check[T any](f *faults, wrong bool, field string, value T, write string) {
	if wrong {
		f.add(field, value, write)
	}
}

// list returns the faults on one line.
func (f faults) list() string {
	const most = 20 // a Schedule may have a million wrong delays
	var texts []string
	for _, err := range f[:min(most, len(f))] {
		texts = append(texts, err.Error())
	}
	if len(f) > most {
		texts = append(texts, fmt.Sprintf("and %d more", len(f)-most))
	}
	return strings.Join(texts, "; ")
}

// A policyError says that a policy is invalid. It is the Cause of an [Error] with
// ReasonInvalid, whose text says what kind of fault it is by this type.
type policyError struct {
	of     string // whose policy it is: "class ..."; "": the call's own
	faults faults
	also   error // what stopped the call besides; nil: nothing
}

func (e *policyError) Error() string {
	if e.of != "" {
		return "invalid policy of " + e.what()
	}
	return "invalid policy: " + e.what()
}

// what returns the text of e without its first words, which the text of an Error
// begins with too.
func (e *policyError) what() string {
	text := e.faults.list()
	if e.of != "" {
		text = e.of + ": " + text
	}
	if e.also != nil {
		text += "; " + e.also.Error()
	}
	return text
}

func (e *policyError) Unwrap() error { return e.also }

const (
	writeDuration = "write 0 for none, or a positive duration"
	writeLeast    = "write 0 for never, or at least 1ms"
)

// faults returns what is wrong with p, each field by itself. It allocates nothing
// where that is nothing, so every decision can afford to ask.
func (p *Policy) faults() (f faults) {
	const count = "write how many, 0 for not set, or -1 for unlimited"
	check(&f, p.MaxAttempts < Unlimited, "MaxAttempts", p.MaxAttempts, count)
	check(&f, p.MaxRetries < Unlimited, "MaxRetries", p.MaxRetries, count)
	check(&f, p.AttemptCap < 0, "AttemptCap", p.AttemptCap,
		"write 0 for no cap, or how many attempts it allows")
	f.addBackoff(p.Backoff)
	check(&f, p.MaxDelay < 0, "MaxDelay", p.MaxDelay, writeDuration)
	f.addJitter(p.Jitter)
	check(&f, p.MaxRetryAfter < 0, "MaxRetryAfter", p.MaxRetryAfter,
		"write 0 for one minute or MaxDelay, whichever is longer, or a positive duration")
	switch m := p.RetryAfter; m {
	case RetryAfterSpread, RetryAfterAtLeast, RetryAfterExact:
	default:
		f.add("RetryAfter", strconv.Quote(string(m)),
			"write RetryAfterSpread, RetryAfterAtLeast or RetryAfterExact")
	}
	check(&f, p.MaxElapsed < 0, "MaxElapsed", p.MaxElapsed, writeDuration)
	check(&f, p.AttemptTimeout < 0, "AttemptTimeout", p.AttemptTimeout, writeDuration)
	check(&f, p.HealthyAfter != 0 && p.HealthyAfter < leastHealthy,
		"HealthyAfter", p.HealthyAfter, writeLeast)
	if b := p.Budget; b != nil {
		check(&f, b.Size < 1, "Budget: Size", b.Size,
			"write how many retries it holds, at least 1")
		check(&f, !(b.Ratio >= 0 && b.Ratio <= 1), "Budget: Ratio", b.Ratio,
			"write a share between 0 and 1: 0.1 is one retry for ten successes")
		check(&f, b.RefillEvery != 0 && b.RefillEvery < leastRefill,
			"Budget: RefillEvery", b.RefillEvery, writeLeast)
		check(&f, b.Remember != 0 && b.Remember < leastRefill,
			"Budget: Remember", b.Remember, writeLeast)
		check(&f, b.Grace != 0 && b.Grace < leastRefill,
			"Budget: Grace", b.Grace, writeLeast)
	}
	return f
}

// leastHealthy is the shortest HealthyAfter: one of 1ns would make every attempt
// healthy, and no limit would ever be reached.
const leastHealthy = time.Millisecond

// addBackoff adds what is wrong with the Backoff of a policy, or of a class.
func (f *faults) addBackoff(b Backoff) {
	const delay = "write 0 for no delay, or a positive duration"
	switch b := b.(type) {
	case Fixed:
		check(f, b < 0, "Backoff: Fixed", time.Duration(b), delay)
	case Linear:
		check(f, b < 0, "Backoff: Linear", time.Duration(b), delay)
	case Fibonacci:
		check(f, b < 0, "Backoff: Fibonacci", time.Duration(b), delay)
	case Exponential:
		check(f, b.Base < 0, "Backoff: Exponential.Base", b.Base, delay)
		check(f, b.Factor != 0 && b.Factor != b.factor(),
			"Backoff: Exponential.Factor", b.Factor,
			"write 0 for 2, or a finite number of at least 1")
	case Schedule:
		for i, d := range b {
			if d < 0 {
				f.add(fmt.Sprintf("Backoff: Schedule[%d]", i), d, delay)
			}
		}
	}
}

// addJitter adds what is wrong with the Jitter of a policy, or of a class.
func (f *faults) addJitter(j Jitter) {
	switch j := j.(type) {
	case Proportional:
		check(f, !(j >= 0 && j <= 1), "Jitter: Proportional", float64(j),
			"write a share between 0 and 1: 0.2 is ±20 %")
	case Spread:
		check(f, j != FullJitter && j != EqualJitter, "Jitter: Spread", int(j),
			"write FullJitter, EqualJitter, or nil for none")
	}
}
