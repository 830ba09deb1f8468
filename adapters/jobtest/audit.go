package jobtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// The function `audit` checks the journal and the dead letters after all jobs have ended. Because
// of the crashes, it cannot know how often each job should have run. The parameter `faults` is the
// text that describes the crashes in the output of the test.
func audit(
	t *testing.T, e Engine, q Queue, j *journal, keys []string, crashes int, faults string,
) {
	runs, err := j.readRuns()
	must(t, err)
	letters, err := q.Dead(t.Context())
	must(t, err)
	if err := j.close(); err != nil {
		t.Error(err)
	}
	total, cut, dead, twice := 0, 0, 0, 0
	for _, key := range keys {
		letter, is := letters[key]
		if is {
			dead++
		}
		for _, r := range runs[key] {
			total++
			if r.ended.IsZero() {
				cut++
			}
		}
		planted := strings.HasPrefix(key, PlantedPrefix)
		for _, fault := range auditJob(runs[key], letter, is, planted) {
			t.Errorf("%s: %s: %+v", key, fault, runs[key])
		}
		if fault := repeated(runs[key]); fault != "" && e.Repeats {
			twice++
		} else if fault != "" && !e.Forgets {
			t.Errorf("%s: %s: %+v", key, fault, runs[key])
		}
	}
	if second := len(letters) - dead; second > 0 && !(e.Repeats && second <= crashes) {
		t.Errorf("%d dead letters, and %d of them are jobs", len(letters), dead)
	}
	if twice > crashes {
		t.Errorf("%d crashes, and %d jobs ran twice", crashes, twice)
	}
	t.Logf("%s: %d jobs, %d done, %d dead letters and %d second dead letters; "+
		"%d runs, %d of them cut off, %d jobs twice",
		faults, len(keys), len(keys)-dead, dead, len(letters)-dead, total, cut, twice)
}

// If the runs of a job show that the job was in the queue twice, the function `repeated` returns a
// text that says so. Otherwise it returns "".
func repeated(runs []run) string {
	for i, r := range runs[min(1, len(runs)):] {
		switch before := runs[i]; {
		case r.attempt <= before.attempt:
			return fmt.Sprintf("attempt %d ran after attempt %d", r.attempt, before.attempt)
		case before.ended.After(r.began):
			return fmt.Sprintf("attempts %d and %d ran at once", before.attempt, r.attempt)
		}
	}
	return ""
}

// auditJob returns the faults in the runs of one job and in its dead letter. If `planted` is true,
// the method Plant of a [Stranger] has added the job, so the job may become a dead letter before
// its last attempt.
func auditJob(runs []run, letter retryjob.DeadLetter, dead, planted bool) (faults []string) {
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	succeeded := false
	for _, r := range runs {
		succeeded = succeeded || r.ok
		if r.attempt > faultLimit {
			say("attempt %d ran, and the limit is %d", r.attempt, faultLimit)
		}
	}
	switch {
	case !dead && !succeeded:
		say("it is lost")
	case planted && dead && letter.Reason == retry.ReasonPermanent:
	case dead && letter.Reason != retry.ReasonExhausted:
		say("the dead letter says %q", letter.Reason)
	case dead && letter.Attempts != faultLimit:
		say("the dead letter says %d attempts", letter.Attempts)
	}
	return faults
}

// auditLoaded returns the faults in the runs of one job and in its dead letter. The parameter
// `last` is how many attempts the job must make. The parameter `succeeds` says whether the last
// attempt succeeds.
func auditLoaded(
	runs []int, last int, succeeds bool, letter retryjob.DeadLetter, dead bool,
) (faults []string) {
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for i, attempt := range runs {
		if attempt != i+1 {
			say("run %d is attempt %d", i+1, attempt)
		}
	}
	if len(runs) != last {
		say("it ran %d times, want %d", len(runs), last)
	}
	if dead == succeeds {
		say("the last attempt succeeds: %t, dead letter: %t", succeeds, dead)
	}
	if dead && (letter.Reason != retry.ReasonExhausted || letter.Attempts != last) {
		say("the dead letter says %q after %d attempts, want %q after %d",
			letter.Reason, letter.Attempts, retry.ReasonExhausted, last)
	}
	return faults
}
