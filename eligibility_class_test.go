package retry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// A kindError is a failure of a kind that classify knows.
type kindError string

func (e kindError) Error() string { return "a failure of kind " + string(e) }

// classes returns a Classify that finds the class of a kindError.
func classes(known map[kindError]*retry.Class) func(error) *retry.Class {
	return func(err error) *retry.Class {
		var kind kindError
		errors.As(err, &kind)
		return known[kind]
	}
}

// A step is what was decided after a failure.
type step struct {
	Reason retry.Reason
	Delay  time.Duration
	Class  string
}

// decideSlowly is what the documents say about classes, with a counter for each
// name: the steps of a call whose attempts fail by script and then succeed.
func decideSlowly(p retry.Policy, known map[kindError]*retry.Class, script []kindError, seed uint64) (steps []step) {
	// more reports whether another attempt may follow the n-th failure.
	more := func(p retry.Policy, n int) bool {
		return (p.MaxAttempts <= 0 || n < p.MaxAttempts) && (p.MaxRetries <= 0 || n <= p.MaxRetries) && (p.AttemptCap == 0 || n < p.AttemptCap)
	}
	bounded := func(p retry.Policy) bool { return p.MaxAttempts > 0 || p.MaxRetries > 0 || p.AttemptCap > 0 }

	failures := map[string]int{}
	for i, kind := range script {
		all, of := i+1, i+1
		s, pace := step{}, p
		class := known[kind]
		if class != nil {
			s.Class = class.Name
			if class.Name != "" {
				failures[class.Name]++
			}
			if class.Policy != nil {
				pace = *class.Policy
				if class.Name != "" {
					of = failures[class.Name]
				}
			}
		}
		own := class != nil && class.Policy != nil
		switch {
		case len(failures) > 8, own && !bounded(pace) && !bounded(p) && !pace.NonRetryable && !p.NonRetryable && pace.Backoff == nil && (p.MaxAttempts != 0 || p.MaxRetries != 0):
			return append(steps, step{Reason: retry.ReasonInvalid})
		case p.NonRetryable || pace.NonRetryable:
			s.Reason = retry.ReasonNonRetryable
		case p.MaxAttempts == 0 && p.MaxRetries == 0 || !more(p, all) || own && !more(pace, of):
			s.Reason = retry.ReasonExhausted
		default:
			s.Reason = retry.ReasonRetry
		}
		if pace.Backoff != nil {
			s.Delay = pace.Backoff.Delay(of)
		}
		if pace.MaxDelay > 0 {
			s.Delay = min(s.Delay, pace.MaxDelay)
		}
		if pace.Jitter != nil {
			s.Delay = retry.Draw(seed, all, 0, s.Delay) // FullJitter is the only one here
		}
		steps = append(steps, s)
		if s.Reason != retry.ReasonRetry {
			return steps
		}
	}
	return append(steps, step{Reason: retry.ReasonSuccess})
}

// byDo, byOnce and byNext are the same by each of the library's three ways.
func byDo(ctx context.Context, p retry.Policy, script []kindError) (steps []step) {
	p.OnEvent = func(_ context.Context, e retry.Event) {
		if e.Kind == retry.RetryScheduled {
			steps = append(steps, step{retry.ReasonRetry, e.Delay, e.Class})
		}
	}
	attempts := 0
	err := retry.Do(ctx, p, failing(script, &attempts))
	last := step{Reason: retry.ReasonOf(err)}
	var failed *retry.Error
	if errors.As(err, &failed) {
		last.Delay, last.Class = failed.Delay, failed.Class
	}
	return append(steps, last)
}

func byOnce(ctx context.Context, p retry.Policy, script []kindError, seed uint64) (steps []step) {
	attempts, stored := 0, map[string]int{}
	for {
		d, err := retry.Once(ctx, p, retry.Attempt{Number: attempts + 1, Classes: stored, Seed: seed}, failing(script, &attempts))
		steps = append(steps, step{d.Reason, d.Delay, d.Class})
		if !d.Retry() {
			return steps
		}
		if retry.ReasonOf(err) != retry.ReasonRetry {
			return append(steps, step{Reason: "the error has another reason"})
		}
		stored = maps.Clone(stored)
		stored[d.Class]++
	}
}

func byNext(p retry.Policy, script []kindError, seed uint64) (steps []step) {
	stored := map[string]int{}
	for i, kind := range script {
		d := p.Next(retry.Attempt{Number: i + 1, Classes: stored, Err: kind, Seed: seed})
		steps = append(steps, step{d.Reason, d.Delay, d.Class})
		if !d.Retry() {
			return steps
		}
		stored[d.Class]++
	}
	return append(steps, step{Reason: retry.ReasonSuccess})
}

// decided returns the steps that the documents and the library's three ways agree on.
func decided(t *testing.T, p retry.Policy, known map[kindError]*retry.Class, script []kindError, seed uint64) []step {
	t.Helper()
	want := decideSlowly(p, known, script, seed)
	require.Equal(t, want, byDo(t.Context(), p, script), "Do: %v", script)
	require.Equal(t, want, byOnce(t.Context(), p, script, seed), "Once: %v", script)
	require.Equal(t, want, byNext(p, script, seed), "Next: %v", script)
	return want
}

// failing returns a function that fails by script, counts its attempts, and then
// succeeds.
func failing(script []kindError, attempts *int) func(context.Context) error {
	return func(context.Context) error {
		*attempts++
		if *attempts > len(script) {
			return nil
		}
		return script[*attempts-1]
	}
}

func TestClassesDecideAsACounterForEachName(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	pick := func(from ...int) int { return from[random.IntN(len(from))] }
	pace := func() (p retry.Policy) {
		p.MaxAttempts = pick(0, 0, retry.Unlimited, 1, 2, 3, 5, 8)
		p.MaxRetries = pick(0, 0, 0, retry.Unlimited, 1, 2, 4)
		p.AttemptCap = pick(0, 0, 0, 2, 4)
		p.NonRetryable = random.IntN(10) == 0
		p.Backoff = []retry.Backoff{nil, retry.Fixed(time.Second), retry.Linear(300 * time.Millisecond), retry.Exponential{Base: 50 * time.Millisecond}}[random.IntN(4)]
		p.MaxDelay = time.Duration(pick(0, 0, 700)) * time.Millisecond
		if random.IntN(2) == 0 {
			p.Jitter = retry.FullJitter
		}
		return p
	}
	reasons := map[retry.Reason]int{}
	synctest.Test(t, func(t *testing.T) {
		for range rounds(5_000, 50_000) {
			p := pace()
			if p.Backoff == nil {
				p.Backoff = retry.Fixed(time.Millisecond)
			}
			known := map[kindError]*retry.Class{}
			for _, kind := range []kindError{"a", "b", "c"} {
				if random.IntN(8) == 0 {
					continue // this kind has no class
				}
				known[kind] = &retry.Class{Name: []string{"", string(kind), "shared"}[random.IntN(3)]}
				if random.IntN(6) > 0 {
					own := pace()
					known[kind].Policy = &own
				}
			}
			p.Classify = classes(known)
			seed := random.Uint64() | 1
			p.Source = func() uint64 { return seed }
			script := make([]kindError, random.IntN(12))
			for i := range script {
				script[i] = []kindError{"a", "b", "c", "d"}[random.IntN(4)]
			}

			steps := decided(t, p, known, script, seed)
			reasons[steps[len(steps)-1].Reason]++
		}
	})
	for _, reason := range []retry.Reason{retry.ReasonSuccess, retry.ReasonExhausted, retry.ReasonNonRetryable, retry.ReasonInvalid} {
		assert.Greater(t, reasons[reason], 5, reason)
	}
}

func TestClass(t *testing.T) {
	unauthorized := &retry.Class{Name: "unauthorized", Policy: &retry.Policy{MaxAttempts: 2}}
	unsafe := errors.New("it may have been processed")
	for _, row := range []struct {
		name   string
		policy retry.Policy
		class  *retry.Class
		script []kindError
		want   string
	}{
		{"a 401 after two 503 still has its retry", retry.Policy{MaxAttempts: 5}, unauthorized, []kindError{"503", "503", "401"}, "<nil>"},
		{"the second 401 is the last", retry.Policy{MaxAttempts: 5}, unauthorized, []kindError{"401", "503", "401"},
			`retry: attempts exhausted after 3 attempts (2 of "unauthorized"): a failure of kind 401`},
		{"where both limits are reached, the text has that of the policy", retry.Policy{MaxAttempts: 2}, unauthorized, []kindError{"401", "401"},
			"retry: attempts exhausted after 2 attempts: a failure of kind 401"},
		{"without a name the limit goes by all failures", retry.Policy{MaxAttempts: 5}, &retry.Class{Policy: &retry.Policy{MaxAttempts: 2}}, []kindError{"503", "401"},
			"retry: attempts exhausted after 2 attempts: a failure of kind 401"},
		{"without a limit of the policy there is no retry", retry.Policy{}, unauthorized, []kindError{"401"},
			"retry: gave up after 1 attempt (no limit is set, so there is no retry): a failure of kind 401"},
		{"NonRetryable says why", retry.Policy{MaxAttempts: 5}, &retry.Class{Policy: &retry.Policy{NonRetryable: true}, Cause: unsafe}, []kindError{"401"},
			"retry: not retryable after 1 attempt (it may have been processed): a failure of kind 401"},
		{"a NonRetryable policy has no Cause of a class", retry.Policy{MaxAttempts: 5, NonRetryable: true}, &retry.Class{Policy: &retry.Policy{NonRetryable: true}, Cause: unsafe}, []kindError{"401"},
			"retry: not retryable after 1 attempt: a failure of kind 401"},
		{"a Cause is for NonRetryable alone", retry.Policy{MaxAttempts: 5}, &retry.Class{Policy: &retry.Policy{MaxAttempts: 1}, Cause: unsafe}, []kindError{"401"},
			"retry: attempts exhausted after 1 attempt: a failure of kind 401"},
		{"an invalid class", retry.Policy{MaxAttempts: 5}, &retry.Class{Name: "x\n", Policy: &retry.Policy{MaxDelay: -1, Jitter: retry.Proportional(2)}}, []kindError{"401"},
			`retry: invalid policy after 1 attempt (class "x\n": MaxDelay is -1ns: write 0 for none, or a positive duration; Jitter: Proportional is 2: write a share between 0 and 1: 0.2 is ±20 %): a failure of kind 401`},
		{"a class that never waits, where nothing limits the attempts", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Second)}, &retry.Class{Name: "hot", Policy: &retry.Policy{}}, []kindError{"401"},
			`retry: invalid policy after 1 attempt (class "hot": unlimited attempts without a delay: set MaxAttempts, MaxRetries, a Budget or a Backoff (Fixed(10*time.Millisecond))): a failure of kind 401`},
		{"a class that never waits, with a limit of its own", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Second)}, &retry.Class{Name: "twice", Policy: &retry.Policy{MaxRetries: 1}}, []kindError{"401", "401"},
			`retry: attempts exhausted after 2 attempts (2 of "twice"): a failure of kind 401`},
		{"without a Policy it is decided by the count of all, and named", retry.Policy{MaxAttempts: 2}, &retry.Class{Name: "seen"}, []kindError{"503", "401"},
			"retry: attempts exhausted after 2 attempts: a failure of kind 401"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				row.policy.Classify = classes(map[kindError]*retry.Class{"401": row.class})
				err := retry.Do(t.Context(), row.policy, failing(row.script, &attempts))
				assert.Equal(t, row.want, fmt.Sprint(err))
			})
		})
	}
}

func TestAClassGivesTheDelay(t *testing.T) {
	inner := retry.Policy{
		Backoff: retry.Fixed(time.Minute), MaxDelay: 30 * time.Second, Jitter: retry.EqualJitter, MaxRetryAfter: 40 * time.Second,
	}
	p := retry.Policy{
		MaxAttempts: 5, Backoff: retry.Fixed(time.Second), MaxDelay: 2 * time.Second, Jitter: retry.FullJitter, MaxRetryAfter: 3 * time.Second,
		Classify: unnamed(&inner),
	}
	lo, hi := windowOf(p, retry.Attempt{Number: 1, Err: errDial})
	assert.Equal(t, []time.Duration{15 * time.Second, 30 * time.Second}, []time.Duration{lo, hi}, "its curve, cap and jitter")
	assert.Equal(t, retry.ReasonRetry, p.Next(retry.Attempt{Number: 1, Err: retry.After(40*time.Second, errDial), Seed: 1}).Reason, "its MaxRetryAfter")
	assert.Equal(t, retry.ReasonRetryAfter, p.Next(retry.Attempt{Number: 1, Err: retry.After(40*time.Second+1, errDial), Seed: 1}).Reason)

	inner = retry.Policy{}
	assert.Equal(t, retry.Decision{Reason: retry.ReasonRetry}, p.Next(retry.Attempt{Number: 1, Err: errDial}),
		"a field that it does not set is zero, not that of the call's policy")
	assert.Equal(t, retry.ReasonRetry, p.Next(retry.Attempt{Number: 1, Err: retry.After(time.Minute, errDial)}).Reason, "the default MaxRetryAfter")
	assert.Equal(t, retry.ReasonRetryAfter, p.Next(retry.Attempt{Number: 1, Err: retry.After(time.Minute+1, errDial)}).Reason)

	p.Classify = func(error) *retry.Class { return nil }
	lo, hi = windowOf(p, retry.Attempt{Number: 1, Err: errDial})
	assert.Equal(t, []time.Duration{0, time.Second}, []time.Duration{lo, hi}, "nil means the call's policy")
}

func TestACallKnowsEightNames(t *testing.T) {
	var script []kindError
	known := map[kindError]*retry.Class{}
	for i := range 9 {
		kind := kindError(fmt.Sprintf("%d", i+1))
		script = append(script, kind, kind)
		known[kind] = &retry.Class{Name: string(kind)}
	}
	p := retry.Policy{MaxAttempts: 100, Classify: classes(known)}
	require.Len(t, decided(t, p, known, script, 1), 17)
	attempts := 0
	err := retry.Do(t.Context(), p, failing(script, &attempts))
	assert.EqualError(t, err, `retry: invalid policy after 17 attempts (Classify returned "9", one name of a class too many: a call knows at most 8): a failure of kind 9`)
}

func TestAttemptClasses(t *testing.T) {
	p := retry.Policy{MaxAttempts: 100}
	p.Classify = classes(map[kindError]*retry.Class{"x": {Name: "x", Policy: &retry.Policy{MaxAttempts: 3, Backoff: retry.Linear(time.Second)}}})
	for _, row := range []struct {
		name    string
		classes map[string]int
		number  int
		reason  retry.Reason
		delay   time.Duration
	}{
		{"nil: not known, so all failures are of the class", nil, 2, retry.ReasonRetry, 2 * time.Second},
		{"nil: and the limit too", nil, 3, retry.ReasonExhausted, 3 * time.Second},
		{"empty: this is the first", map[string]int{}, 50, retry.ReasonRetry, time.Second},
		{"others do not count", map[string]int{"y": 7}, 50, retry.ReasonRetry, time.Second},
		{"one before", map[string]int{"x": 1}, 50, retry.ReasonRetry, 2 * time.Second},
		{"two before", map[string]int{"x": 2}, 50, retry.ReasonExhausted, 3 * time.Second},
		{"a negative number is none", map[string]int{"x": -5}, 50, retry.ReasonRetry, time.Second},
		{"the largest number", map[string]int{"x": math.MaxInt}, 50, retry.ReasonExhausted, 1<<63 - 1},
		{"eight others are too many", map[string]int{"1": 1, "2": 1, "3": 1, "4": 1, "5": 1, "6": 1, "7": 1, "8": 1}, 50, retry.ReasonInvalid, 0},
		{"seven others, and names that have not failed", map[string]int{"1": 1, "2": 1, "3": 1, "4": 1, "5": 1, "6": 1, "7": 1, "8": 0, "": 3, "x": 1}, 50, retry.ReasonRetry, 2 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			if math.MaxInt < math.MaxInt64 && row.name == "the largest number" {
				row.delay = time.Second * math.MaxInt32
			}
			d := p.Next(retry.Attempt{Number: row.number, Classes: row.classes, Err: kindError("x")})
			assert.Equal(t, step{row.reason, row.delay, d.Class}, step{d.Reason, d.Delay, d.Class})
			d, err := retry.Once(t.Context(), p, retry.Attempt{Number: row.number, Classes: row.classes}, func(context.Context) error { return kindError("x") })
			assert.Equal(t, row.reason, d.Reason)
			assert.Equal(t, row.reason, retry.ReasonOf(err))
			if row.reason == retry.ReasonExhausted { // without Classes it is not known how many of the failures were of the class
				text := fmt.Sprintf(`after %d attempts (%d of "x"): `, row.number, max(row.classes["x"], row.classes["x"]+1))
				assert.Equal(t, row.classes != nil, strings.Contains(err.Error(), text), "%v", err)
			}
		})
	}
}

// Failures that are permanent or rejected have no class, nor has one whose class
// is invalid. One that a cancellation ended has one.
func TestWhatIsClassified(t *testing.T) {
	asked := 0
	p := retry.Policy{MaxAttempts: 5, RetryIf: func(err error) bool { return err != errDial }}
	p.Classify = func(error) *retry.Class { asked++; return &retry.Class{Name: "x"} }
	for _, row := range []struct {
		name  string
		err   error
		asked int
		class string
	}{
		{"no error", nil, 0, ""},
		{"permanent", retry.Permanent(errBoom), 0, ""},
		{"rejected", errDial, 0, ""},
		{"any other", errBoom, 1, "x"},
	} {
		t.Run(row.name, func(t *testing.T) {
			asked = 0
			assert.Equal(t, row.class, p.Next(retry.Attempt{Number: 1, Err: row.err}).Class)
			assert.Equal(t, row.asked, asked)
		})
	}
	t.Run("under a canceled context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d, err := retry.Once(ctx, p, retry.Attempt{Number: 1}, func(context.Context) error { cancel(); return errBoom })
		assert.Equal(t, retry.ReasonCanceled, d.Reason)
		assert.Equal(t, "x", d.Class)
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
	})
	t.Run("the error and the event of the last failure have it, a success has none", func(t *testing.T) {
		var stopped []string
		p := p
		p.MaxAttempts = 2
		p.OnEvent = func(_ context.Context, e retry.Event) {
			if e.Kind == retry.Stopped {
				stopped = append(stopped, e.Class)
			}
		}
		err := retry.Do(t.Context(), p, func(context.Context) error { return errBoom })
		var failed *retry.Error
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, "x", failed.Class)
		attempts := 0
		require.NoError(t, retry.Do(t.Context(), p, failing([]kindError{"a"}, &attempts)))
		assert.Equal(t, []string{"x", ""}, stopped)
	})
}

func TestClassifyInTheLoop(t *testing.T) {
	everyWay(t, "limits and delays of the class alone are used, and it is never modified", func(t *testing.T, call caller) {
		class := &retry.Policy{
			Backoff: retry.Fixed(time.Minute), MaxElapsed: 1, AttemptTimeout: 1, HealthyAfter: time.Millisecond, Budget: &retry.Budget{Size: 1},
			RetryIf: func(error) bool { panic("RetryIf") }, Classify: func(error) *retry.Class { panic("Classify") },
			Wait:    func(context.Context, time.Duration) (time.Duration, error) { panic("Wait") },
			OnEvent: func(context.Context, retry.Event) { panic("OnEvent") },
		}
		before := fmt.Sprintf("%#v", class)
		p := everySecond
		p.Classify = func(err error) *retry.Class {
			assert.Same(t, errDial, err)
			return &retry.Class{Policy: class}
		}
		start, runs := time.Now(), 0
		err := call(t.Context(), p, fails(&runs))
		assert.Equal(t, &retry.Error{Reason: retry.ReasonExhausted, Attempts: 3, Waited: 2 * time.Minute, Delay: time.Minute, Err: errDial}, plain(err))
		assert.Equal(t, 2*time.Minute, time.Since(start))
		assert.Equal(t, before, fmt.Sprintf("%#v", class))
	})
	everyWay(t, "an invalid class", func(t *testing.T, call caller) {
		p, runs := everySecond, 0
		p.Classify = unnamed(&retry.Policy{MaxAttempts: -2, MaxDelay: -1})
		err := call(t.Context(), p, fails(&runs))
		e := stopped(t, err)
		assert.Equal(t, &retry.Error{Reason: retry.ReasonInvalid, Attempts: 1, Err: errDial, Cause: e.Cause}, plain(err))
		assert.EqualError(t, e.Cause, `invalid policy of class "": MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited; `+
			`MaxDelay is -1ns: write 0 for none, or a positive duration`)
	})
}

func TestAClassThatIsInvalid(t *testing.T) {
	sleepy := retry.Fixed(time.Second)
	for _, row := range []struct {
		name  string
		outer retry.Policy
		inner retry.Policy
		want  retry.Reason
	}{
		{"its own fault", retry.Policy{MaxAttempts: 5}, retry.Policy{MaxDelay: -1}, retry.ReasonInvalid},
		{"what is not looked at is not judged: durations", retry.Policy{MaxAttempts: 5}, retry.Policy{MaxElapsed: -1, AttemptTimeout: -1, HealthyAfter: -1}, retry.ReasonRetry},
		{"what is not looked at is not judged: an empty Budget", retry.Policy{MaxAttempts: 5}, retry.Policy{Budget: new(retry.Budget)}, retry.ReasonRetry},
		{"no limit in the policy of the call, no delay in the class", retry.Policy{MaxAttempts: -1, Backoff: sleepy}, retry.Policy{}, retry.ReasonInvalid},
		{"a schedule that ends in a hot loop", retry.Policy{MaxAttempts: -1, Backoff: sleepy}, retry.Policy{Backoff: retry.Schedule{time.Second, 0}}, retry.ReasonInvalid},
		{"no limit in either, no delay in the class", retry.Policy{MaxAttempts: -1, Backoff: sleepy}, retry.Policy{MaxAttempts: -1}, retry.ReasonInvalid},
		{"the class's MaxElapsed is not used", retry.Policy{MaxAttempts: -1, Backoff: sleepy}, retry.Policy{MaxElapsed: time.Second}, retry.ReasonInvalid},
		{"the class's Budget is not used", retry.Policy{MaxAttempts: -1, Backoff: sleepy}, retry.Policy{Budget: &retry.Budget{Size: 1}}, retry.ReasonInvalid},

		{"hot alone, limited by the policy of the call", retry.Policy{MaxAttempts: 5, Backoff: sleepy}, retry.Policy{MaxAttempts: -1}, retry.ReasonRetry},
		{"no delay, bounded by the call's MaxElapsed alone", retry.Policy{MaxElapsed: time.Minute, Backoff: sleepy}, retry.Policy{}, retry.ReasonInvalid},
		{"hot alone, bounded by the call's Budget", retry.Policy{MaxAttempts: -1, Budget: &retry.Budget{Size: 1}}, retry.Policy{MaxAttempts: -1}, retry.ReasonRetry},
		{"no delay, limited by its MaxAttempts", retry.Policy{MaxAttempts: -1, Backoff: sleepy}, retry.Policy{MaxAttempts: 2}, retry.ReasonRetry},
		{"no delay, limited by its AttemptCap", retry.Policy{MaxAttempts: -1, Backoff: sleepy}, retry.Policy{AttemptCap: 2}, retry.ReasonRetry},
		{"no delay, limited by NonRetryable", retry.Policy{MaxAttempts: -1, Backoff: sleepy}, retry.Policy{NonRetryable: true}, retry.ReasonNonRetryable},
		{"a custom Backoff is trusted", retry.Policy{MaxAttempts: -1, Backoff: sleepy}, retry.Policy{Backoff: retry.BackoffFunc(func(int) time.Duration { return 0 })}, retry.ReasonRetry},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.NoError(t, row.outer.Validate())
			row.outer.Classify = unnamed(&row.inner)
			assert.Equal(t, row.want, row.outer.Next(retry.Attempt{Number: 1, Err: errDial}).Reason)
		})
	}
}
