package jobtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
	"github.com/goretry/retry/retrylog"
)

// lettersPerKill is the number of dead letters that Redrive prepares for each kill.
const lettersPerKill = 50

// errKept is the error of the jobs whose dead letters Redrive does not move, because the Filter
// `picks` returns false for them.
var errKept = errors.New("boom, and the dead letter stays")

// forgedLetters is how many forged dead letters a Forger puts into its queue.
const forgedLetters = 12

// `picks` is the Filter of all redrives in this test. It returns true for nine of ten dead
// letters.
func picks(d retryjob.DeadLetter) bool { return d.Reason == retry.ReasonPermanent }

// Redrive tests the Redrive of the adapter. The test starts `kills` processes, two at a time, and
// prepares 50 dead letters for each process. Each process moves dead letters back until it is
// killed at a random moment. A worker runs the jobs that were moved back. At the end, two
// concurrent calls of Redrive move the rest. Only nine of ten dead letters are to be moved. Redrive
// checks that
//
//   - no job is lost;
//   - each job that was moved ran once, or at most twice if Engine.Repeats is true;
//   - each of these runs was attempt 1, and began at the time within the Window that
//     retryjob.Spread computes from the key of the job;
//   - the other jobs are still dead letters;
//   - a dry run at the start moves nothing, and neither does another redrive at the end.
//
// If the queue is an [Operator], the test stops some of the jobs while dead letters are moved, and
// these jobs must never run. If the queue is a [Forger], the first dead letters in the queue are
// forged, and the adapter must skip and count them.
func Redrive(t *testing.T, e Engine, kills int) {
	must(t, e.check("Redrive", true))
	obey(e)
	limit := 5*e.Lease + 10*time.Minute + time.Duration(kills)*30*time.Second
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	name, directory := newName(), t.TempDir()
	r := prepare(ctx, t, open(t, e, name).(Redriver), lettersPerKill*kills)
	r.dryRun(ctx, t)

	j, err := openJournal(directory)
	must(t, err)
	length := max(time.Second, 3*e.Unit) + time.Duration(kills)*longestAttempt
	r.journal, r.window = j, window{length: length, first: time.Now()}
	var finished atomic.Bool
	worked := make(chan error, 1)
	go func() { worked <- r.work(ctx, &finished) }()
	operated := make(chan error, 1)
	go func() { operated <- r.operate(ctx) }()
	killAll(ctx, t, j, kills, 2, order{Queue: name, Directory: directory, Window: length})
	must(t, <-operated)
	r.finish(ctx, t)
	finished.Store(true)
	must(t, <-worked)
	stays := r.kept + len(r.stopped) + r.forged
	r.redrive(ctx, t, retryjob.RedriveOptions{Window: length},
		retryjob.RedriveResult{Found: stays, Skipped: stays})
	r.audit(ctx, t, e, kills)
}

// A redriveTest holds the state of one test by the function Redrive.
type redriveTest struct {
	queue   Redriver
	keys    []string                       // the keys of the jobs
	letters map[string]retryjob.DeadLetter // by job key: its dead letter before the first Redrive
	kept    int                            // how many dead letters the Filter does not select
	forged  int                            // the number of forged dead letters
	stopped map[string]bool                // the keys of the jobs that an Operator has stopped
	journal *journal
	window  window
}

// The function `prepare` runs jobs until all of them have become dead letters. The parameter `jobs`
// is the number of jobs. If the queue is a Forger, `prepare` also adds forged dead letters.
func prepare(ctx context.Context, t *testing.T, q Redriver, jobs int) *redriveTest {
	t.Helper()
	r := &redriveTest{queue: q, stopped: map[string]bool{}, forged: forge(t, ctx, q)}
	r.keys = enqueue(t, ctx, q, jobs)
	r.letters = bury(t, ctx, q, jobs)
	for _, d := range r.letters {
		if !picks(d) {
			r.kept++
		}
	}
	return r
}

// The method `redrive` calls the method Redrive of the queue with the Filter `picks`, and checks
// the result.
func (r *redriveTest) redrive(
	ctx context.Context, t *testing.T, o retryjob.RedriveOptions, want retryjob.RedriveResult,
) {
	t.Helper()
	o.Filter = picks
	result, err := r.queue.Redrive(ctx, o)
	if exceptForged(err) != nil || result != want {
		t.Fatalf("Redrive: %+v, %v, want %+v", result, err, want)
	}
}

// dryRun checks that a dry run counts all dead letters, reports its progress, and moves
// nothing.
func (r *redriveTest) dryRun(ctx context.Context, t *testing.T) {
	t.Helper()
	all, progress := len(r.keys)+r.forged, 0
	r.redrive(ctx, t, retryjob.RedriveOptions{DryRun: true, OnProgress: func(done, total int) {
		if progress++; done != progress || total != all {
			t.Errorf("progress %d of %d, want %d of %d", done, total, progress, all)
		}
	}}, retryjob.RedriveResult{
		Found: all, Moved: len(r.keys) - r.kept, Skipped: r.kept + r.forged,
	})
	after, err := r.queue.Dead(ctx)
	must(t, err)
	if len(after) != len(r.keys) {
		t.Fatalf("%d dead letters are left after a dry run, want %d", len(after), len(r.keys))
	}
}

// The method `work` runs the jobs that were moved back. It returns when `finished` is true and all
// these jobs have ended.
func (r *redriveTest) work(ctx context.Context, finished *atomic.Bool) error {
	p := retry.Policy{MaxAttempts: 1, OnEvent: r.journal.events.OnEvent}
	do := func(_ context.Context, key string, attempt int) error {
		return r.journal.around(key, attempt, func() error { return nil })
	}
	return work(ctx, r.queue, p, do, func() (bool, error) {
		time.Sleep(100 * time.Millisecond)
		if !finished.Load() {
			return false, nil
		}
		return over(ctx, r.queue, r.journal, len(r.keys)-r.kept-len(r.stopped))
	})
}

// The method `finish` calls Redrive until no dead letter is left to move. One call may not be
// enough, because a server may return the dead letters of a killed process late.
func (r *redriveTest) finish(ctx context.Context, t *testing.T) {
	t.Helper()
	r.window.last = time.Now()
	stays := r.kept + len(r.stopped) + r.forged
	must(t, until(ctx, func() (bool, error) {
		if err := r.ranAfterStop(); err != nil {
			return false, err
		}
		result, faster, err := r.redriveTwice(ctx)
		if faster.Moved+result.Moved > 0 {
			r.window.last = time.Now()
		}
		want := retryjob.RedriveResult{Found: stays, Skipped: stays}
		return faster.Moved == 0 && result == want, err
	}))
}

// ranAfterStop returns an error that lists the jobs that ran although an Operator had stopped
// them.
func (r *redriveTest) ranAfterStop() error {
	runs, err := r.journal.readRuns()
	for key := range r.stopped {
		if len(runs[key]) > 0 {
			err = errors.Join(err, fmt.Errorf("the job %s was stopped, but ran: %+v", key, runs[key]))
		}
	}
	return err
}

// redriveTwice calls Redrive, and calls Redrive once more inside the Filter of the first call.
// So the second call overtakes the first call.
func (r *redriveTest) redriveTwice(
	ctx context.Context,
) (result, faster retryjob.RedriveResult, err error) {
	var failed error
	another := sync.OnceFunc(func() {
		faster, failed = r.queue.Redrive(ctx, retryjob.RedriveOptions{
			Filter: picks, Window: r.window.length,
		})
	})
	result, err = r.queue.Redrive(ctx, retryjob.RedriveOptions{
		Window: r.window.length,
		Filter: func(d retryjob.DeadLetter) bool {
			another()
			return picks(d)
		},
	})
	return result, faster, errors.Join(exceptForged(err), exceptForged(failed))
}

// The method `audit` checks the runs and the dead letters after the last redrive.
func (r *redriveTest) audit(ctx context.Context, t *testing.T, e Engine, kills int) {
	t.Helper()
	runs, err := r.journal.readRuns()
	log, unread := r.journal.readLog()
	must(t, errors.Join(err, unread, r.journal.close()))
	for _, fault := range r.window.auditAges(log) {
		t.Error(fault)
	}
	after, err := r.queue.Dead(ctx)
	must(t, err)
	for key := range runs {
		if strings.HasPrefix(key, ForgedPrefix) {
			t.Errorf("%s was forged, and ran: %+v", key, runs[key])
		}
	}
	var fifths [5]int // how many jobs are due in each fifth of the window
	twice := 0
	for _, key := range r.keys {
		before := r.letters[key]
		letter, dead := after[key]
		if r.stopped[key] {
			if dead || len(runs[key]) > 0 {
				t.Errorf("%s: it was stopped, and is a dead letter: %t, or ran: %+v",
					key, dead, runs[key])
			}
			continue
		}
		dead = dead && letter.Reason == before.Reason
		for _, fault := range r.window.audit(e, before, runs[key], dead) {
			t.Errorf("%s: %s: %+v", key, fault, runs[key])
		}
		if len(runs[key]) > 1 {
			twice++
		}
		if picks(before) {
			length := r.window.length
			fifths[min(4, 5*retryjob.Spread(before.Key, length)/length)]++
		}
	}
	if len(after) != r.kept {
		t.Errorf("%d dead letters are left, want %d", len(after), r.kept)
	}
	if twice > kills || twice > 0 && !e.Repeats {
		t.Errorf("%d kills, and %d jobs ran twice", kills, twice)
	}
	t.Logf("%d kills: %d dead letters moved, %d of them twice, %d kept, %d stopped, %d forged; "+
		"in each fifth of a window of %v: %v",
		kills, len(r.keys)-r.kept-len(r.stopped), twice, r.kept, len(r.stopped), r.forged,
		r.window.length, fifths)
}

// If the queue is an Operator, the method `operate` stops one tenth of the jobs that Redrive is to
// move. If it could stop a job before a worker took the job, it adds the job to r.stopped. It goes
// through the jobs in the same order as the processes that move dead letters, and about as fast. So
// it stops jobs whose dead letters have just been read by one of these processes.
func (r *redriveTest) operate(ctx context.Context) error {
	operator, is := r.queue.(Operator)
	for _, key := range r.keys {
		if !is || !picks(r.letters[key]) || retry.SeedOf(key)%10 != 1 {
			continue
		}
		time.Sleep(rand.N(3 * longestAttempt / 2))
		switch ok, err := operator.Stop(ctx, key); {
		case err != nil:
			return err
		case ok:
			r.stopped[key] = true
		}
	}
	return nil
}

// If the queue is a Forger, the function `forge` adds forged dead letters. It returns their number.
func forge(t *testing.T, ctx context.Context, q Queue) int {
	t.Helper()
	forger, is := q.(Forger)
	if !is {
		return 0
	}
	keys := make([]string, forgedLetters)
	for i := range keys {
		keys[i] = fmt.Sprint(ForgedPrefix, i+1)
	}
	must(t, forger.Forge(ctx, keys))
	return len(keys)
}

var onlyStay = regexp.MustCompile(
	`^\w+: redrive: \d+ of \d+ dead letters cannot go back to the queue, and stay dead letters: `)

// exceptForged returns nil if err says only that some dead letters cannot be moved back to the
// queue. Otherwise it returns err. The callers check how many dead letters were not moved.
func exceptForged(err error) error {
	if err != nil && onlyStay.MatchString(err.Error()) {
		return nil
	}
	return err
}

// The function `bury` runs all jobs until they have become dead letters, and returns the dead
// letters.
func bury(t *testing.T, ctx context.Context, q Queue, jobs int) map[string]retryjob.DeadLetter {
	t.Helper()
	j, err := openJournal(t.TempDir())
	must(t, err)
	p := retry.Policy{
		MaxAttempts: 3,
		OnEvent:     j.events.OnEvent,
		RetryIf:     func(err error) bool { return !errors.Is(err, errKept) },
	}
	err = work(ctx, q, p, func(_ context.Context, key string, _ int) error {
		if retry.SeedOf(key)%10 == 0 {
			return errKept
		}
		return retry.Permanent(errBoom)
	}, func() (bool, error) { return over(ctx, q, j, jobs) })
	letters, failed := q.Dead(ctx)
	must(t, errors.Join(err, failed, j.close()))
	if len(letters) != jobs {
		t.Fatalf("%d jobs became %d dead letters: %v",
			jobs, len(letters), slices.Collect(maps.Keys(letters)))
	}
	return letters
}

// An entry of the journal about a process that calls Redrive has the key in the constant
// `redriver`. All other entries have the key of a job.
const redriver = "redriver"

// The method `redrive` moves dead letters until its process is killed. It pauses after each dead
// letter, because without pauses it would finish before the kill.
func (o order) redrive(ctx context.Context, q Redriver, j *journal) error {
	_, err := q.Redrive(ctx, retryjob.RedriveOptions{
		Filter: picks,
		Window: o.Window,
		OnProgress: func(done, _ int) {
			_ = j.around(redriver, done, func() error {
				time.Sleep(rand.N(2 * longestAttempt / lettersPerKill))
				return nil
			})
		},
	})
	if err := exceptForged(err); err != nil {
		return err
	}
	// No dead letter is left, so this process waits until it is killed.
	_ = j.around(redriver, 0, func() error { <-ctx.Done(); return nil })
	return ctx.Err()
}

// A window is the period in which the jobs that were moved back may run.
type window struct {
	length      time.Duration
	first, last time.Time // when the first and the last call of Redrive began
}

// The method `audit` returns the faults of one job after the last redrive. The parameter `before`
// is the dead letter that the job had before the first redrive. The parameter `dead` says whether
// the job is a dead letter now, with the same reason as in `before`.
func (w window) audit(
	e Engine, before retryjob.DeadLetter, runs []run, dead bool,
) (faults []string) {
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	moved := picks(before)
	switch {
	case moved == dead:
		say("picked: %t, a dead letter: %t", moved, dead)
	case !moved && len(runs) > 0:
		say("it ran, and was not picked")
	case moved && len(runs) == 0:
		say("it is lost")
	}
	at := retryjob.Spread(before.Key, w.length)
	for _, r := range runs {
		if r.attempt != 1 {
			say("attempt %d ran, want a new count", r.attempt)
		}
		if early := w.first.Add(at).Sub(r.began); early > 0 {
			say("it ran %v before its moment, %v into the window", early, at)
		}
		if late := r.began.Sub(w.last.Add(at)); late > e.Late {
			say("it ran %v after its moment, want at most %v", late, e.Late)
		}
	}
	return faults
}

// auditAges returns a fault for each attempt in the log whose Elapsed counts from a time before the
// first redrive. The log contains only attempts of jobs that were moved back, and their Elapsed
// must count from the redrive.
func (w window) auditAges(log []retrylog.Record) (faults []string) {
	for _, r := range log {
		began := r.Event.Time.Add(-r.Event.Elapsed)
		if r.Event.Kind == retry.AttemptStarted && began.Before(w.first) {
			faults = append(faults, fmt.Sprintf("%s: its time counts from %v before the redrive",
				r.Key, w.first.Sub(began)))
		}
	}
	return faults
}
