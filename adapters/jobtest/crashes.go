package jobtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
)

// faultLimit is the limit on attempts for each job in the tests Load, Kills and Restarts.
const faultLimit = 3

func faultPolicy(e Engine) retry.Policy {
	return retry.Policy{
		MaxAttempts: faultLimit,
		Backoff:     retry.Fixed(e.Unit),
		Jitter:      retry.Proportional(0.5),
	}
}

// longestAttempt is the upper limit for the random duration of an attempt in the tests Kills and
// Restarts.
const longestAttempt = 100 * time.Millisecond

// faultDo returns a function that can be passed to the method Work of a [Queue]. In the tests Kills
// and Restarts, this function runs the attempts of all jobs.
func faultDo(j *journal) func(ctx context.Context, key string, attempt int) error {
	return func(ctx context.Context, key string, attempt int) error {
		return j.around(key, attempt, func() error {
			time.Sleep(time.Duration(rand.Int64N(int64(longestAttempt))))
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
	if stranger, is := q.(Stranger); is { // plant one hostile message for each kill
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
		time.Sleep(200 * time.Millisecond) // `over` reads thousands of events, so call it seldom
		return over(ctx, q, j, len(keys))
	}); err != nil {
		t.Error(err)
	}
	audit(t, e, q, j, keys, kills, fmt.Sprintf("%d kills, %d of them in an attempt", kills, busy))
}

// killAll starts processes that follow the order o, and kills each of them. The parameter `kills`
// is the number of processes in all, and `atOnce` is the number of processes that run at once.
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
	case <-time.After(time.Duration(rand.Int64N(int64(longestAttempt)))):
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
