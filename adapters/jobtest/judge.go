package jobtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
	"github.com/goretry/retry/retrylog"
)

// The method `judge` compares the observation o with the outcome that the row requires, and returns
// the differences as faults.
func (r *row) judge(e Engine, o observation) (faults []string) {
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if o.err != nil {
		say("%v", o.err)
	}
	var numbers []int
	succeeded := false
	for _, run := range o.runs {
		numbers = append(numbers, run.attempt)
		succeeded = run.ok
	}
	if e.Forgets && (r.endsProcess() || r.stopIn > 0) {
		if !succeeded && len(o.letters) == 0 {
			say("the job has not ended")
		}
		return faults
	}
	if want := r.numbers(e); !slices.Equal(numbers, want) {
		say("the attempts %v ran, want %v", numbers, want)
	}

	letter, dead := o.letters[key]
	switch {
	case r.want == retry.ReasonSuccess && (dead || !succeeded):
		say("the job must be done: the last attempt succeeded: %t, dead letters: %+v",
			succeeded, o.letters)
	case r.want == retry.ReasonRetry && (dead || succeeded):
		say("the job must wait: the last attempt succeeded: %t, dead letters: %+v",
			succeeded, o.letters)
	case r.want == retry.ReasonSuccess, r.want == retry.ReasonRetry:
	case !dead:
		say("the job must be a dead letter (%v), and is not: %+v", r.want, o.letters)
	default:
		faults = append(faults, r.judgeLetter(letter)...)
		faults = append(faults, r.judgeTimes(e, o.runs, letter)...)
	}
	if len(o.letters) > 1 {
		say("there are more dead letters than jobs: %v", o.letters)
	}

	for _, w := range o.waits {
		if w.seen < w.planned {
			say("attempt %d began %v too early", w.attempt, w.planned-w.seen)
		}
		if late := w.seen - w.planned; late > e.Late {
			say("attempt %d began %v after it was due, want at most %v", w.attempt, late, e.Late)
		}
	}

	calls, err := retrylog.Replay(o.log)
	if err != nil {
		say("%v", err)
	}
	for _, c := range calls {
		if err := c.Check(r.policy.ForJob(r.limit)); err != nil {
			say("%v", err)
		}
	}
	return faults
}

// The method `numbers` returns the numbers of the attempts that must run, in the order in which the
// attempts must run.
func (r *row) numbers(e Engine) (numbers []int) {
	for n := 1; n <= r.attempts; n++ {
		numbers = append(numbers, n)
	}
	if r.stopIn > 0 && e.Uncounted {
		for i := r.stopIn; i < len(numbers); i++ {
			numbers[i]--
		}
	}
	return numbers
}

// longestErr is the maximum length in bytes of the text of an error in a dead letter.
const longestErr = 8 << 10

// judgeLetter returns the faults in a dead letter's reason, number of attempts and error.
func (r *row) judgeLetter(letter retryjob.DeadLetter) (faults []string) {
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if letter.Reason != r.want || letter.Attempts != r.attempts {
		say("the dead letter says %q after %d attempts, want %q after %d",
			letter.Reason, letter.Attempts, r.want, r.attempts)
	}
	// If the worker died in the last attempt, the error of that attempt is unknown. If the worker was
	// stopped in the last attempt (r.stopIn), that attempt was interrupted. An interrupted attempt has
	// not failed, so its error is not stored.
	if !r.endsProcess() && r.stopIn == 0 && !strings.Contains(letter.Err, r.lastText()) {
		say("the dead letter's error is %q, want the last attempt's, %q", letter.Err, r.lastText())
	}
	if !strings.Contains(letter.Err, r.says) {
		say("the dead letter's error is %q, want %q in it", letter.Err, r.says)
	}
	if n := len(letter.Err); n > longestErr {
		say("the dead letter's error has %d bytes, want at most %d", n, longestErr)
	}
	return faults
}

// judgeTimes returns the faults in the times of a dead letter. If the worker did not survive
// the first attempt, the queue may not know when the job began.
func (r *row) judgeTimes(e Engine, runs []run, letter retryjob.DeadLetter) (faults []string) {
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if len(runs) == 0 {
		return nil // the method `judge` has already reported that the runs are missing
	}
	first, known := runs[0].began, r.killIn != 1 && r.panicIn != 1
	if known && (letter.Began.IsZero() || letter.Began.After(first.Add(e.Late))) {
		say("the dead letter says that the job began at %v, want %v or before", letter.Began, first)
	}
	last := runs[len(runs)-1]
	end := last.ended
	if end.IsZero() { // the worker was killed
		end = last.began
	}
	if letter.Ended.Before(end) || letter.Ended.After(end.Add(e.Lease+e.Late+time.Minute)) {
		say("the dead letter says that the job ended at %v, want %v or soon after", letter.Ended, end)
	}
	return faults
}

// lastText returns a text that the error of the last attempt must contain.
func (r *row) lastText() string {
	if r.policy.AttemptTimeout > 0 {
		return context.DeadlineExceeded.Error()
	}
	return errBoom.Error()
}

// A wait is the time between the end of an attempt and the start of the next attempt.
type wait struct {
	attempt       int // the number of the attempt after the wait
	planned, seen time.Duration
}

type waits []wait

func (w waits) String() string {
	var lines []string
	for _, w := range w {
		lines = append(lines, fmt.Sprintf("attempt %d: planned %v, seen %v",
			w.attempt, w.planned, w.seen.Round(time.Millisecond)))
	}
	return strings.Join(lines, "\n")
}

// waitsOf returns the waits between the attempts of one job.
func waitsOf(log []retrylog.Record) (w waits) {
	for i, r := range log {
		if i > 0 && r.Event.Kind == retry.AttemptStarted && log[i-1].Event.Kind == retry.RetryScheduled {
			before := log[i-1].Event
			w = append(w, wait{r.Event.Attempt, before.Delay, r.Event.Time.Sub(before.Time)})
		}
	}
	return w
}
