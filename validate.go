package retry

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry/internal/strict"
)

// Validate returns nil if p is valid. Otherwise it returns a [*PolicyError] that names
// every fault at once, each with the field, its value and what to write instead;
// of more than 20 faults it names 20 and counts the rest. It calls none of p's
// functions. It trusts a custom Backoff or Jitter and never calls it; a pointer
// to a built-in type is treated as a custom one.
func (p Policy) Validate() error {
	if f := p.faults(); f != nil {
		return &PolicyError{faults: f}
	}
	return nil
}

// A PolicyError says that a policy is invalid, and why: a policy in Go, of [Policy.Validate]
// and as the Cause of an [Error] with ReasonInvalid, or one that cannot be decoded.
type PolicyError struct {
	of     string        // whose policy it is: "class ..."; "": the call's own
	faults faults        // in Go
	text   *strict.Error // in the text form; nil: the policy is in Go
	also   error         // what stopped the call besides; nil: nothing
}

// Findings returns what is wrong, at most 20 faults. Each has a Key if the text form has one.
// If the value that was decoded is not a mapping, there is one finding, without a Key.
func (e *PolicyError) Findings() (found []Finding) {
	if e.text == nil {
		return slices.Clone(e.faults.named())
	}
	for _, f := range e.text.Faults {
		found = append(found, Finding{Code: f.Code, Field: fieldOf(f.Key), Key: f.Key}.WithText(f.Text))
	}
	return found
}

// Error returns all faults on one line.
func (e *PolicyError) Error() string {
	switch {
	case e.text != nil:
		return e.text.Error()
	case e.of != "":
		return "invalid policy of " + e.what()
	default:
		return "invalid policy: " + e.what()
	}
}

// what returns the text of e without its first words, which the text of an Error
// begins with too.
func (e *PolicyError) what() string {
	text := e.faults.list()
	if e.of != "" {
		text = e.of + ": " + text
	}
	if e.also != nil {
		text += "; " + e.also.Error()
	}
	return text
}

// Unwrap returns what stopped the call besides, or the error of the decoder; nil if there
// is none.
func (e *PolicyError) Unwrap() error {
	if e.text != nil {
		return e.text.Unwrap()
	}
	return e.also
}

// decodeError returns an error of package strict as a PolicyError.
func decodeError(err error) error {
	if e := new(strict.Error); errors.As(err, &e) {
		return &PolicyError{text: e}
	}
	return err
}

// faults is what is wrong with a policy, in the order of its fields.
type faults []Finding

// mostFaults is how many faults have a text: a Schedule may have a million wrong delays.
const mostFaults = 20

// add adds a fault: the setting by its token, an index in it or "", its value, and what to
// write instead, which is for fmt.
func (f *faults) add(token, index string, value any, write string) {
	if len(*f) >= mostFaults {
		*f = append(*f, Finding{})
		return
	}
	fault := finding(strict.InvalidValue, token, "{"+token+"}%s is %v: "+write, index, value)
	fault.Key += index
	*f = append(*f, fault)
}

// check adds a fault if a field is wrong. It is generic so that a value that is right stays
// where it is: to make an any of it would allocate.
func check[T any](f *faults, wrong bool, token string, value T, write string) {
	if wrong {
		f.add(token, "", value, write)
	}
}

// named returns the faults that have a text.
func (f faults) named() []Finding { return f[:min(mostFaults, len(f))] }

// list returns the faults on one line.
func (f faults) list() string {
	var texts []string
	for _, fault := range f.named() {
		texts = append(texts, fault.String())
	}
	if len(f) > mostFaults {
		texts = append(texts, fmt.Sprintf("and %d more", len(f)-mostFaults))
	}
	return strings.Join(texts, "; ")
}

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
		"write 0 for one minute or {MaxDelay}, whichever is longer, or a positive duration")
	switch m := p.RetryAfter; m {
	case RetryAfterSpread, spreadInText, RetryAfterAtLeast, RetryAfterExact:
	default:
		f.add("RetryAfter", "", strconv.Quote(string(m)),
			"write {RetryAfterSpread}, {RetryAfterAtLeast} or {RetryAfterExact}")
	}
	check(&f, p.MaxElapsed < 0, "MaxElapsed", p.MaxElapsed, writeDuration)
	check(&f, p.AttemptTimeout < 0, "AttemptTimeout", p.AttemptTimeout, writeDuration)
	check(&f, p.HealthyAfter != 0 && p.HealthyAfter < leastHealthy,
		"HealthyAfter", p.HealthyAfter, writeLeast)
	if b := p.Budget; b != nil {
		check(&f, b.Size < 1, "Budget.Size", b.Size,
			"write how many retries it holds, at least 1")
		check(&f, !(b.Ratio >= 0 && b.Ratio <= 1), "Budget.Ratio", b.Ratio,
			"write a share between 0 and 1: 0.1 is one retry for ten successes")
		check(&f, b.RefillEvery != 0 && b.RefillEvery < leastRefill,
			"Budget.RefillEvery", b.RefillEvery, writeLeast)
		check(&f, b.Remember != 0 && b.Remember < leastRefill,
			"Budget.Remember", b.Remember, writeLeast)
		check(&f, b.Grace != 0 && b.Grace < leastRefill,
			"Budget.Grace", b.Grace, writeLeast)
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
		check(f, b < 0, "Fixed", time.Duration(b), delay)
	case Linear:
		check(f, b < 0, "Linear", time.Duration(b), delay)
	case Fibonacci:
		check(f, b < 0, "Fibonacci", time.Duration(b), delay)
	case Exponential:
		check(f, b.Base < 0, "Exponential.Base", b.Base, delay)
		check(f, b.Factor != 0 && b.Factor != b.factor(),
			"Exponential.Factor", b.Factor,
			"write 0 for 2, or a finite number of at least 1")
	case Schedule:
		for i, d := range b {
			if d < 0 {
				f.add("Schedule", fmt.Sprintf("[%d]", i), d, delay)
			}
		}
	}
}

// addJitter adds what is wrong with the Jitter of a policy, or of a class.
func (f *faults) addJitter(j Jitter) {
	switch j := j.(type) {
	case Proportional:
		check(f, !(j >= 0 && j <= 1), "Proportional", float64(j),
			"write a share between 0 and 1: 0.2 is ±20 %%")
	case Spread:
		check(f, j > EqualJitter, "Spread", int(j),
			"write {FullJitter}, {EqualJitter}, or {no Jitter} for none")
	}
}
