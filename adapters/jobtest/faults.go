package jobtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// faultLimit is the limit on attempts for each job of Load, Kills and Restarts.
const faultLimit = 3

func faultPolicy(e Engine) retry.Policy {
	return retry.Policy{
		MaxAttempts: faultLimit,
		Backoff:     retry.Fixed(e.Unit),
		Jitter:      retry.Proportional(0.5),
	}
}

// succeeds reports whether an attempt succeeds. Seven of ten attempts succeed.
func succeeds(key string, attempt int) bool {
	return retry.SeedOf(fmt.Sprintf("%s/%d", key, attempt))%10 >= 3
}

// longest is the upper limit for the random duration of an attempt in Kills and Restarts.
const longest = 100 * time.Millisecond

// faultDo returns the function that runs an attempt of a job in Kills and Restarts.
func faultDo(j *journal) func(ctx context.Context, key string, attempt int) error {
	return func(ctx context.Context, key string, attempt int) error {
		return j.around(key, attempt, func() error {
			time.Sleep(time.Duration(rand.Int64N(int64(longest))))
			if succeeds(key, attempt) {
				return nil
			}
			return errBoom
		})
	}
}

// Kills starts `kills` worker processes, five at a time, and kills each process at a random moment
// of its work. Another worker then finishes the jobs. At the end, Kills checks that
//
//   - no job is lost;
//   - no attempt above a job's limit ran;
//   - no attempt ran twice, and no two attempts of a job ran at once, unless Engine.Repeats is
//     true;
//   - each dead letter has the right reason and number of attempts.
//
// If the queue is a [Stranger], Kills also adds one hostile message for each kill.
func Kills(t *testing.T, e Engine, kills int) {
	must(t, e.check("Kills", true))
	obey(e)
	limit := 5*e.Lease + 10*time.Minute + time.Duration(kills)*30*time.Second
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	name, directory := newName(), t.TempDir()
	q := open(t, e, name)
	j, err := openJournal(directory)
	must(t, err)
	keys := enqueue(t, ctx, q, 20*kills)
	if stranger, is := q.(Stranger); is { // one hostile message for each kill
		planted := make([]string, kills)
		for i := range planted {
			planted[i] = fmt.Sprint(PlantedPrefix, i+1)
		}
		must(t, stranger.Plant(ctx, planted))
		keys = append(keys, planted...)
	}

	killAll(ctx, t, j, kills, 5, order{Queue: name, Directory: directory})
	busy, err := j.cutOff()
	must(t, err)
	p := faultPolicy(e)
	p.OnEvent = j.events.OnEvent
	if err := work(ctx, q, p, faultDo(j), func() (bool, error) {
		time.Sleep(200 * time.Millisecond) // reading a log of thousands of events is slow
		return over(ctx, q, j, len(keys))
	}); err != nil {
		t.Error(err)
	}
	audit(t, e, q, j, keys, kills, fmt.Sprintf("%d kills, %d of them in an attempt", kills, busy))
}

// PlantedPrefix is the prefix of the keys that Kills passes to the method Plant of a
// [Stranger].
const PlantedPrefix = "planted-"

// killAll starts processes that follow the order o, and kills each of them. It does so as often
// as kills says, with atOnce processes at a time.
func killAll(ctx context.Context, t *testing.T, j *journal, kills, atOnce int, o order) {
	t.Helper()
	var killers sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(kills))
	errs := make([]error, min(atOnce, kills))
	for i := range errs {
		killers.Go(func() {
			for left.Add(-1) >= 0 && errs[i] == nil {
				errs[i] = killOne(ctx, starterOf(t.Name()), j, o)
			}
		})
	}
	killers.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("%v\n%s", err, o.output())
	}
}

// killOne starts a worker process, and kills the process while a job runs.
func killOne(ctx context.Context, start starter, j *journal, o order) error {
	p, err := start(ctx, o)
	if err != nil {
		return err
	}
	// A worker that has found no job after 5 seconds is killed as well.
	waiting, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = until(waiting, func() (began bool, err error) {
		byKey, err := j.readRuns()
		for _, runs := range byKey {
			began = began || slices.ContainsFunc(runs, func(r run) bool { return r.process == p.id })
		}
		return began, err
	})
	if retry.ReasonOf(err) == retry.ReasonDeadline {
		err = nil
	}
	select {
	case <-p.exited:
		err = errors.Join(err, errors.New("the worker ended before it was killed"))
	case <-time.After(time.Duration(rand.Int64N(int64(longest)))):
	}
	return errors.Join(err, p.kill())
}

// Restarts runs jobs on one worker, and meanwhile restarts the queue's server several times. It
// calls restart(0) to restart(restarts - 1), and each call must restart the server. If Work
// returns an error, Restarts calls Work again. At the end, Restarts makes the same checks as
// [Kills].
func Restarts(t *testing.T, e Engine, jobs, restarts int, restart func(n int) error) {
	must(t, e.check("Restarts", false))
	ctx, cancel := context.WithTimeout(t.Context(), 5*e.Lease+10*time.Minute)
	defer cancel()
	q := open(t, e, newName())
	j, err := openJournal(t.TempDir())
	must(t, err)
	keys := enqueue(t, ctx, q, jobs)
	p := faultPolicy(e)
	p.OnEvent = j.events.OnEvent

	again := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(100 * time.Millisecond)}
	working, stop := context.WithCancel(ctx)
	defer stop()
	var workers sync.WaitGroup
	workers.Go(func() {
		err := retry.Do(working, again, func(ctx context.Context) error {
			return q.Work(ctx, p, faultDo(j))
		})
		if err != nil && retry.ReasonOf(err) != retry.ReasonCanceled {
			t.Error(err)
		}
	})
	for n := range restarts {
		// The restarts are distributed over the whole test, so that jobs run during each restart.
		if err := until(ctx, func() (bool, error) {
			runs, err := j.readRuns()
			return len(runs) >= jobs*(n+1)/(restarts+1), err
		}); err != nil {
			t.Fatal(err)
		}
		must(t, restart(n))
	}
	err = retry.Do(ctx, again, func(ctx context.Context) error {
		switch done, err := over(ctx, q, j, len(keys)); {
		case err != nil:
			return err
		case !done:
			return errNotYet
		default:
			return nil
		}
	})
	if err != nil {
		t.Error(err)
	}
	stop()
	workers.Wait()
	audit(t, e, q, j, keys, restarts, fmt.Sprintf("%d restarts", restarts))
}

// audit checks the journal and the dead letters after all jobs have ended. Because of the
// crashes, it cannot know how often each job should have run. The parameter `faults` describes
// the crashes in the output of the test.
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

// repeated returns a text if the runs show that a job was in the queue twice, and "" otherwise.
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

// auditJob returns the faults in the runs of one job and in its dead letter. A job of
// [Stranger].Plant may become a dead letter before its last attempt.
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

// `must` ends the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// `open` opens a queue, and deletes the queue at the end of the test.
func open(t *testing.T, e Engine, name string) Queue {
	t.Helper()
	q, err := e.Open(t.Context(), name)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := q.Close(ctx, true); err != nil {
			t.Error(err)
		}
	})
	return q
}

// enqueue adds jobs to the queue and returns their keys. The parameter `jobs` is the number of
// jobs.
func enqueue(t *testing.T, ctx context.Context, q Queue, jobs int) []string {
	t.Helper()
	keys := make([]string, jobs)
	var next atomic.Int64
	var producers sync.WaitGroup
	errs := make([]error, 8)
	for p := range errs {
		producers.Go(func() {
			for errs[p] == nil {
				i := int(next.Add(1)) - 1
				if i >= jobs {
					return
				}
				keys[i] = fmt.Sprintf("job-%d", i+1)
				errs[p] = q.Enqueue(ctx, keys[i], 0)
			}
		})
	}
	producers.Wait()
	must(t, errors.Join(errs...))
	return keys
}
