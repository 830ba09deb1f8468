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

// lettersPerKill is how many dead letters Redrive makes for each kill.
const lettersPerKill = 50

var errKept = errors.New("boom, and this stays")

// forgedLetters is how many letters each redriver meets that must not go back.
const forgedLetters = 12

// ForgedPrefix begins the keys of what a [Forger] adds.
const ForgedPrefix = "forged-"

// picks picks the dead letters that Redrive moves, nine of ten.
func picks(d retryjob.DeadLetter) bool { return d.Reason == retry.ReasonPermanent }

// Redrive makes 50 dead letters for each kill, and moves nine of ten of them back while
// it kills so many processes that do so, two at once, each at a random moment of its work,
// and while a worker runs. Then it lets two more at once finish, and checks that no job is lost,
// that each ran once, unless the queue Repeats, as a new one, and at its moment in the window, that the others are
// dead letters still, and that one more Redrive, and a dry run before all, move nothing. If
// the queue is an [Operator], some of the jobs are stopped meanwhile, and must never run. If
// it is a [Forger], each redriver begins with forged letters, which it must skip and count.
func Redrive(t *testing.T, e Engine, kills int) {
	must(t, e.check("Redrive", true))
	obey(e)
	ctx, cancel := context.WithTimeout(t.Context(), 5*e.Lease+10*time.Minute+time.Duration(kills)*30*time.Second)
	defer cancel()
	name, directory := newName(), t.TempDir()
	q := open(t, e, name).(Redriver)
	forged := forge(t, ctx, q)
	keys := enqueue(t, ctx, q, lettersPerKill*kills)
	letters := bury(t, ctx, q, len(keys))
	redrive := func(o retryjob.RedriveOptions, want retryjob.RedriveResult) {
		t.Helper()
		o.Filter = picks
		if result, err := q.Redrive(ctx, o); exceptForged(err) != nil || result != want {
			t.Fatalf("Redrive: %+v, %v, want %+v", result, err, want)
		}
	}
	kept, all := 0, len(keys)+forged
	for _, d := range letters {
		if !picks(d) {
			kept++
		}
	}
	progress := 0
	redrive(retryjob.RedriveOptions{DryRun: true, OnProgress: func(done, total int) {
		if progress++; done != progress || total != all {
			t.Errorf("progress %d of %d, want %d of %d", done, total, progress, all)
		}
	}}, retryjob.RedriveResult{Found: all, Moved: len(keys) - kept, Skipped: kept + forged})
	after, err := q.Dead(ctx)
	must(t, err)
	if len(after) != len(keys) {
		t.Fatalf("%d dead letters are left after a dry run, want %d", len(after), len(keys))
	}

	j, err := openJournal(directory)
	must(t, err)
	w := window{length: max(time.Second, 3*e.Unit) + time.Duration(kills)*longest, first: time.Now()}
	var finished atomic.Bool
	stopped := map[string]bool{}
	worked := make(chan error, 1)
	go func() {
		p := retry.Policy{MaxAttempts: 1, OnEvent: j.events.OnEvent}
		do := func(_ context.Context, key string, attempt int) error {
			return j.around(key, attempt, func() error { return nil })
		}
		worked <- work(ctx, q, p, do, func() (bool, error) {
			time.Sleep(100 * time.Millisecond)
			if !finished.Load() {
				return false, nil
			}
			return over(ctx, q, j, len(keys)-kept-len(stopped))
		})
	}()
	operated := make(chan error, 1)
	go func() { operated <- operate(ctx, q, keys, letters, stopped) }()
	killAll(ctx, t, j, kills, 2, order{Queue: name, Directory: directory, Window: w.length})
	must(t, <-operated)
	stays := kept + len(stopped) + forged
	w.last = time.Now()
	must(t, until(ctx, func() (bool, error) { // a server may still have what a killed redriver held
		runs, err := j.readRuns()
		for key := range stopped {
			if len(runs[key]) > 0 {
				err = errors.Join(err, fmt.Errorf("%s was stopped, and ran: %+v", key, runs[key]))
			}
		}
		if err != nil {
			return false, err
		}
		var faster retryjob.RedriveResult
		var failed error
		another := sync.OnceFunc(func() {
			faster, failed = q.Redrive(ctx, retryjob.RedriveOptions{Filter: picks, Window: w.length})
		})
		result, err := q.Redrive(ctx, retryjob.RedriveOptions{Window: w.length, Filter: func(d retryjob.DeadLetter) bool {
			another()
			return picks(d)
		}})
		if faster.Moved+result.Moved > 0 {
			w.last = time.Now()
		}
		return faster.Moved == 0 && result == retryjob.RedriveResult{Found: stays, Skipped: stays}, errors.Join(exceptForged(err), exceptForged(failed))
	}))
	finished.Store(true)
	must(t, <-worked)
	redrive(retryjob.RedriveOptions{Window: w.length}, retryjob.RedriveResult{Found: stays, Skipped: stays})

	runs, err := j.readRuns()
	log, unread := j.readLog()
	must(t, errors.Join(err, unread, j.close()))
	for _, fault := range w.auditAges(log) {
		t.Error(fault)
	}
	after, err = q.Dead(ctx)
	must(t, err)
	for key := range runs {
		if strings.HasPrefix(key, ForgedPrefix) {
			t.Errorf("%s was forged, and ran: %+v", key, runs[key])
		}
	}
	var fifths [5]int
	twice := 0
	for _, key := range keys {
		letter, dead := after[key]
		if stopped[key] {
			if dead || len(runs[key]) > 0 {
				t.Errorf("%s: it was stopped, and is a dead letter: %t, or ran: %+v", key, dead, runs[key])
			}
			continue
		}
		for _, fault := range w.audit(e, letters[key], runs[key], dead && letter.Reason == letters[key].Reason) {
			t.Errorf("%s: %s: %+v", key, fault, runs[key])
		}
		if len(runs[key]) > 1 {
			twice++
		}
		if picks(letters[key]) {
			fifths[min(4, 5*retryjob.Spread(letters[key].Key, w.length)/w.length)]++
		}
	}
	if len(after) != kept {
		t.Errorf("%d dead letters are left, want %d", len(after), kept)
	}
	if twice > kills || twice > 0 && !e.Repeats {
		t.Errorf("%d kills, and %d jobs ran twice", kills, twice)
	}
	t.Logf("%d kills: %d dead letters moved, %d of them twice, %d kept, %d stopped, %d forged; in each fifth of a window of %v: %v",
		kills, all-stays, twice, kept, len(stopped), forged, w.length, fifths)
}

// operate stops every tenth of the dead letters that Redrive moves, if there is an operator,
// and adds those that no worker had to stopped. It goes through them in the order of the
// redrivers, and about as fast, so that it stops what they have just read.
func operate(ctx context.Context, q Queue, keys []string, letters map[string]retryjob.DeadLetter, stopped map[string]bool) error {
	operator, is := q.(Operator)
	for _, key := range keys {
		if !is || !picks(letters[key]) || retry.SeedOf(key)%10 != 1 {
			continue
		}
		time.Sleep(rand.N(3 * longest / 2))
		switch ok, err := operator.Stop(ctx, key); {
		case err != nil:
			return err
		case ok:
			stopped[key] = true
		}
	}
	return nil
}

// forge adds forged letters, if a stranger can write some, and returns how many.
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

var onlyStay = regexp.MustCompile(`^\w+: redrive: \d+ of \d+ dead letters cannot go back, and stay: `)

// exceptForged returns an error of Redrive, or nil if it only names letters that cannot go
// back: how many stay is counted.
func exceptForged(err error) error {
	if err != nil && onlyStay.MatchString(err.Error()) {
		return nil
	}
	return err
}

// bury lets all jobs fail, and returns their dead letters.
func bury(t *testing.T, ctx context.Context, q Queue, jobs int) map[string]retryjob.DeadLetter {
	t.Helper()
	j, err := openJournal(t.TempDir())
	must(t, err)
	p := retry.Policy{MaxAttempts: 3, OnEvent: j.events.OnEvent, RetryIf: func(err error) bool { return !errors.Is(err, errKept) }}
	err = work(ctx, q, p, func(_ context.Context, key string, _ int) error {
		if retry.SeedOf(key)%10 == 0 {
			return errKept
		}
		return retry.Permanent(errBoom)
	}, func() (bool, error) { return over(ctx, q, j, jobs) })
	letters, failed := q.Dead(ctx)
	must(t, errors.Join(err, failed, j.close()))
	if len(letters) != jobs {
		t.Fatalf("%d jobs became %d dead letters: %v", jobs, len(letters), slices.Collect(maps.Keys(letters)))
	}
	return letters
}

// redriver is the key of a redriver's progress in the journal.
const redriver = "redriver"

// redrive moves dead letters until it is killed. It pauses after each, or it would be
// done before the kill.
func (o order) redrive(ctx context.Context, q Redriver, j *journal) error {
	_, err := q.Redrive(ctx, retryjob.RedriveOptions{Filter: picks, Window: o.Window, OnProgress: func(done, _ int) {
		_ = j.around(redriver, done, func() error {
			time.Sleep(rand.N(2 * longest / lettersPerKill))
			return nil
		})
	}})
	if err := exceptForged(err); err != nil {
		return err
	}
	_ = j.around(redriver, 0, func() error { <-ctx.Done(); return nil }) // it found none, and waits for the kill
	return ctx.Err()
}

// A window is when redriven jobs may run.
type window struct {
	length      time.Duration
	first, last time.Time // when the first and the last redriver began
}

// audit returns what is wrong with a job after a redrive: before is its dead letter
// before, and dead whether it still is one, for the same reason.
func (w window) audit(e Engine, before retryjob.DeadLetter, runs []run, dead bool) (faults []string) {
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

// auditAges returns the jobs whose MaxElapsed counts from before the redrive.
func (w window) auditAges(log []retrylog.Record) (faults []string) {
	for _, r := range log {
		if began := r.Event.Time.Add(-r.Event.Elapsed); r.Event.Kind == retry.AttemptStarted && began.Before(w.first) {
			faults = append(faults, fmt.Sprintf("%s: its time counts from %v before the redrive", r.Key, w.first.Sub(began)))
		}
	}
	return faults
}
