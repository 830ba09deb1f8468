package retry

import "time"

// A Class is a kind of failure that has its own limits and delays. Policy.Classify returns the
// Class of an error. If a field of the Class is zero, the field of the policy applies. The Class
// below allows one retry after a 401, however many other failures came before. This Class sets no
// delays, so the delays of the policy apply.
//
//	&retry.Class{Name: "unauthorized", MaxAttempts: 2}
//
// The limits of the policy still count all failures. So a Class can only stop a call earlier. If
// the policy sets none of MaxAttempts, MaxRetries and MaxElapsed, there is only one attempt,
// whatever the Class allows. A negative number in a Class is invalid, and stops the call with
// ReasonInvalid.
type Class struct {
	// Name is the name of the class. Failures whose classes have the same Name are counted together. A
	// call keeps a count for each of the first 8 names. A class without a Name has no count of its
	// own, and neither has a class after the first 8. The MaxAttempts and the Backoff of such a class
	// count all failures of the call.
	Name string

	MaxAttempts  int  // the call ends after this many failures of the class; 0: no limit
	NonRetryable bool // true: the call ends after a failure of this class

	// Backoff is the curve of delays for this class. It counts only the failures of this class:
	// Backoff.Delay(1) is the delay after the first failure of this class. If Backoff is nil, the
	// curve of the policy applies, which counts all failures. For no delay, use Fixed(0).
	Backoff Backoff

	// If SkipBudget is true, the retry after this failure takes nothing from Policy.Budget. An example
	// is the retry after a 401 that sends a new access token. The retry still takes a token from each
	// Budget of WithBudget, and each of these Budgets may refuse the retry.
	SkipBudget bool

	MaxDelay time.Duration // the longest delay in this class; 0: the policy's MaxDelay
	Jitter   Jitter        // widens each delay; nil: the policy's Jitter; Proportional(0): no jitter

	// Cause says why the class is NonRetryable. If NonRetryable ends the call, Cause becomes the
	// Cause of the [Error] and of the CallFinished. It may be nil.
	Cause error
}

// The method `under` returns p with the Backoff, MaxDelay and Jitter that c sets.
func (p *Policy) under(c *Class) Policy {
	q := *p
	if c.Backoff != nil {
		q.Backoff = c.Backoff
	}
	if c.MaxDelay != 0 {
		q.MaxDelay = c.MaxDelay
	}
	if c.Jitter != nil {
		q.Jitter = c.Jitter
	}
	return q
}

// maxClasses is the number of class names for which a call keeps counts.
const maxClasses = 8

// The type `failures` counts the failures of one class.
type failures struct {
	class  string
	number int
}

// failuresOf adds the last failure to the count of its class, and returns this count. A class
// without a name has no count of its own, and neither has a class after the first 8. For such a
// class, failuresOf returns the number of all failures.
func (c *call) failuresOf(class string) int {
	switch {
	case class == "":
		return c.number
	case c.once:
		return failuresOf(class, c.earlier, c.number)
	}
	for i := range c.classes {
		f := &c.classes[i]
		if f.number == 0 {
			f.class = class
		}
		if f.class == class {
			f.number = next(f.number)
			return f.number
		}
	}
	return c.number
}

// failuresOf returns how many failures a class has, including the last failure. The parameter
// `earlier` contains the counts before the last failure, and `number` is the count of all failures.
// A class without a name has no count of its own, and neither has a class after the first 8. For
// such a class, failuresOf returns `number`.
func failuresOf(class string, earlier map[string]int, number int) int {
	names := 0
	for name, failures := range earlier {
		if failures > 0 && name != "" {
			names++
		}
	}
	before := max(0, earlier[class])
	if class == "" || before == 0 && names >= maxClasses {
		return number
	}
	return next(before)
}
