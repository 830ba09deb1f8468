package retry

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry/internal/strict"
)

// Validate returns nil if p is valid. If p is invalid, it returns a [*PolicyError] with all faults.
// Each fault names the field, its value, and what to write instead. After 20 faults, Validate only
// counts the rest.
//
// Validate calls no function of p. It checks a Backoff or Jitter only if its type is a type of this
// package, such as Exponential. For a value of any other type, even a pointer such as *Exponential,
// Validate checks nothing and calls no method.
func (p Policy) Validate() error {
	if f := p.faults(); f != nil {
		return &PolicyError{faults: f}
	}
	return nil
}

// A PolicyError says why a policy is invalid. [Policy.Validate] and the decoders return it. It
// is also the Cause of an [Error] with ReasonInvalid.
type PolicyError struct {
	of     string        // for an invalid Class: "class" and its name; "" for a policy
	faults faults        // the faults of a policy or Class that was set in Go code
	text   *strict.Error // the faults of a JSON or YAML text; nil: no such text was decoded
	also   error         // a second cause that ended the call, such as the context's error; nil: none
}

// Findings returns the faults, at most 20. If the text form has no key for a field, the Finding has
// no Key. If the decoded JSON or YAML is not a mapping, Findings returns one Finding without a Key.
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
		return "invalid policy of " + e.details()
	default:
		return "invalid policy: " + e.details()
	}
}

// details returns the text of e without the words "invalid policy". The text of an Error
// already contains these words.
func (e *PolicyError) details() string {
	text := e.faults.list()
	if e.of != "" {
		text = e.of + ": " + text
	}
	if e.also != nil {
		text += "; " + e.also.Error()
	}
	return text
}

// Unwrap returns the error of the decoder if a JSON or YAML text is invalid. For an invalid policy
// that was set in Go code, Unwrap returns the second cause that stopped the call, such as the
// context's error. It returns nil if the invalid policy is the only cause.
func (e *PolicyError) Unwrap() error {
	if e.text != nil {
		return e.text.Unwrap()
	}
	return e.also
}

// The type `faults` is a list of the faults of a policy, in the order of its fields.
type faults []Finding

// mostFaults is the largest number of faults that an error describes. Without this limit, the error
// for a Schedule with a million wrong delays would list all of them.
const mostFaults = 20

// The method `add` adds a fault of a setting. `token` names the setting as in allNames, for example
// "MaxDelay". `index` is the index of the value in a list, such as "[2]", or "" if the setting is
// not a list. `advice` is a format string for package fmt. It says what to write instead of
// `value`.
func (f *faults) add(token, index string, value any, advice string) {
	if len(*f) >= mostFaults {
		*f = append(*f, Finding{})
		return
	}
	fault := finding(strict.InvalidValue, token, "{"+token+"}%s is %v: "+advice, index, value)
	fault.Key += index
	*f = append(*f, fault)
}

// The function `check` adds a fault if the parameter `wrong` is true. The function is generic,
// because passing each valid value as an interface would allocate.
func check[T any](f *faults, wrong bool, token string, value T, advice string) {
	if wrong {
		f.add(token, "", value, advice)
	}
}

// The method `named` returns the first 20 faults. Any later element of f is an empty Finding, which
// only counts a fault.
func (f faults) named() []Finding { return f[:min(mostFaults, len(f))] }

// The method `list` returns the texts of the faults on one line.
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

// The method `faults` returns the faults of p. It checks each field by itself. For a valid policy
// it allocates nothing, because it is called for every decision.
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

// The method `fault` returns a PolicyError that says why c is invalid. It returns nil if c is
// valid.
func (c *Class) fault() error {
	var f faults
	check(&f, c.MaxAttempts < 0, "MaxAttempts", c.MaxAttempts,
		"write how many failures end the call, or 0 for no limit")
	f.addBackoff(c.Backoff)
	check(&f, c.MaxDelay < 0, "MaxDelay", c.MaxDelay,
		"write 0 for the MaxDelay of the policy, or a positive duration")
	f.addJitter(c.Jitter)
	if f == nil {
		return nil
	}
	for i := range f.named() { // a Class has no text form, so its Findings have no Key
		f[i].Key, f[i].inKeys = "", f[i].inGo
	}
	return &PolicyError{of: fmt.Sprintf("class %q", c.Name), faults: f}
}

// leastHealthy is the shortest valid HealthyAfter. With a HealthyAfter of 1ns, every attempt
// would make the call begin anew, so the call would never reach a limit.
const leastHealthy = time.Millisecond

// addBackoff adds the faults of the Backoff of a policy or of a class.
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

// addJitter adds the faults of the Jitter of a policy or of a class.
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
