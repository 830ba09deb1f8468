package jobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
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

// faultLimit is how many attempts the jobs of Load, Kills and Restarts have.
const faultLimit = 3

func faultPolicy(e Engine) retry.Policy {
	return retry.Policy{MaxAttempts: faultLimit, Backoff: retry.Fixed(e.Unit), Jitter: retry.Proportional(0.5)}
}

// succeeds picks the attempts that succeed, seven of ten.
func succeeds(key string, attempt int) bool {
	return retry.SeedOf(fmt.Sprintf("%s/%d", key, attempt))%10 >= 3
}

// longest is the longest time that an attempt of Kills and Restarts takes.
const longest = 100 * time.Millisecond

// faultDo returns what the jobs of Kills and Restarts do.
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

// Load runs this many jobs on four workers. Three of ten attempts fail, chosen
// by key and number, so that it is known in advance how often each job runs and
// which of them end as dead letters. Load checks that every count is exact.
func Load(t *testing.T, e Engine, jobs int) {
	must(t, e.check("Load", false))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	name := newName()
	q := open(t, e, name)
	began := time.Now()
	keys := enqueue(t, ctx, q, jobs)
	enqueued := time.Since(began)

	var log bytes.Buffer
	writer := retrylog.NewWriter(&log)
	var ended atomic.Int64
	var mu sync.Mutex // guards runs
	runs := map[string][]int{}
	p := faultPolicy(e)
	p.OnEvent = func(ctx context.Context, event retry.Event) {
		writer.OnEvent(ctx, event)
		if event.Kind == retry.CallFinished {
			ended.Add(1)
		}
	}
	do := func(_ context.Context, key string, attempt int) error {
		mu.Lock()
		runs[key] = append(runs[key], attempt)
		mu.Unlock()
		if succeeds(key, attempt) {
			return nil
		}
		return errBoom
	}
	began = time.Now()
	working, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		q := q
		if i > 0 {
			var err error
			if q, err = e.Open(ctx, name); err != nil {
				t.Fatal(err)
			}
		}
		workers.Go(func() {
			if errs[i] = q.Work(working, p, do); errors.Is(errs[i], context.Canceled) {
				errs[i] = nil
			} else if errs[i] != nil {
				stop()
			}
			if i > 0 {
				errs[i] = errors.Join(errs[i], q.Close(context.WithoutCancel(ctx), false))
			}
		})
	}
	err := until(working, func() (bool, error) {
		if ended.Load() < int64(jobs) {
			return false, nil
		}
		n, err := q.Open(ctx)
		return n == 0, err
	})
	took := time.Since(began)
	stop()
	workers.Wait()
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Errorf("%d of %d jobs ended: %v", ended.Load(), jobs, err)
	}

	letters, err := q.Dead(ctx)
	must(t, err)
	want, got, dead := 0, 0, 0
	for _, key := range keys {
		n := 1
		for n < faultLimit && !succeeds(key, n) {
			n++
		}
		want, got = want+n, got+len(runs[key])
		for i, attempt := range runs[key] {
			if attempt != i+1 {
				t.Errorf("%s: run %d is attempt %d", key, i+1, attempt)
			}
		}
		if len(runs[key]) != n {
			t.Errorf("%s ran %d times, want %d", key, len(runs[key]), n)
		}
		letter, is := letters[key]
		if is == succeeds(key, n) {
			t.Errorf("%s: last attempt succeeds: %t, dead letter: %t", key, succeeds(key, n), is)
		}
		if is {
			dead++
			if letter.Reason != retry.ReasonExhausted || letter.Attempts != n {
				t.Errorf("%s: the dead letter says %q after %d attempts, want %q after %d", key, letter.Reason, letter.Attempts, retry.ReasonExhausted, n)
			}
		}
	}
	if len(letters) != dead {
		t.Errorf("%d dead letters, and %d of them are jobs", len(letters), dead)
	}
	records, err := retrylog.Read(&log)
	if err != nil {
		t.Fatal(err)
	}
	calls, err := retrylog.Replay(records)
	if err != nil {
		t.Error(err)
	}
	for _, c := range calls {
		if err := c.Check(p); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d jobs, %d done, %d dead letters; %d runs, %d expected; enqueued in %v, worked off in %v",
		jobs, jobs-dead, dead, got, want, enqueued.Round(time.Millisecond), took.Round(time.Millisecond))
}

// Kills kills this many worker processes, five at a time, each at a random
// moment of its work, and lets another worker finish. Then it checks that no
// job is lost, that no attempt above its limit ran, that no attempt ran twice and no
// two attempts of a job at once, unless the queue Repeats, and that the dead letters say
// why. If the queue is a [Stranger], hostile messages are among the jobs.
func Kills(t *testing.T, e Engine, kills int) {
	must(t, e.check("Kills", true))
	obey(e)
	ctx, cancel := context.WithTimeout(t.Context(), 5*e.Lease+10*time.Minute+time.Duration(kills)*30*time.Second)
	defer cancel()
	name, directory := newName(), t.TempDir()
	q := open(t, e, name)
	j, err := openJournal(directory)
	must(t, err)
	keys := enqueue(t, ctx, q, 20*kills)
	if stranger, is := q.(Stranger); is { // among the others, one for each kill
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
		time.Sleep(200 * time.Millisecond) // reading a log of thousands takes a while
		return over(ctx, q, j, len(keys))
	}); err != nil {
		t.Error(err)
	}
	audit(t, e, q, j, keys, kills, fmt.Sprintf("%d kills, %d of them in an attempt", kills, busy))
}

// PlantedPrefix begins the keys of messages that are as hard to handle as one can be.
const PlantedPrefix = "planted-"

// killAll kills this many processes that follow an order, so many at once.
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
		output, _ := os.ReadFile(filepath.Join(o.Directory, "output")) // it does not exist if no process was started
		t.Fatalf("%v\n%s", err, output)
	}
}

// killOne starts a worker and kills it while jobs run.
func killOne(ctx context.Context, start starter, j *journal, o order) error {
	p, err := start(ctx, o)
	if err != nil {
		return err
	}
	// A worker that finds nothing to do is killed too.
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

// Restarts runs this many jobs on one worker and meanwhile calls restart, with n
// from 0, as many times as restarts says. restart must restart the queue's server.
// Then Restarts makes the same checks as [Kills]. If Work returns an error, it is
// called again.
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
		err := retry.Do(working, again, func(ctx context.Context) error { return q.Work(ctx, p, faultDo(j)) })
		if err != nil && retry.ReasonOf(err) != retry.ReasonCanceled {
			t.Error(err)
		}
	})
	for n := range restarts {
		// The restarts are spread over the work, so that each comes under load.
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

// audit checks what the journal and the queue say about jobs that have ended, after so
// many crashes. The faults make it impossible to know how often each job should have run.
func audit(t *testing.T, e Engine, q Queue, j *journal, keys []string, crashes int, faults string) {
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
		for _, fault := range auditJob(runs[key], letter, is, strings.HasPrefix(key, PlantedPrefix)) {
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
	t.Logf("%s: %d jobs, %d done, %d dead letters and %d of a second life; %d runs, %d of them cut off, %d jobs twice",
		faults, len(keys), len(keys)-dead, dead, len(letters)-dead, total, cut, twice)
}

// repeated returns what shows that a job was in the queue twice, or "".
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

// auditJob returns what is wrong with the runs of a job and its dead letter. One that a
// stranger planted may also end before its last attempt, because it cannot be handled.
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

// must ends the test if there is an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a queue that is removed at the end of the test.
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

// enqueue adds this many jobs and returns their keys.
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
