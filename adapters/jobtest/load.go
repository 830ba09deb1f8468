package jobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
	"github.com/goretry/retry/retrylog"
)

// Load runs jobs on four workers. The parameter `jobs` is the number of jobs. Three of ten attempts
// fail. Whether an attempt fails depends only on the key of the job and the number of the attempt.
// So Load knows in advance how often each job must run and which jobs must become dead letters.
// Load checks how often the jobs ran and which dead letters there are.
func Load(t *testing.T, e Engine, jobs int) {
	must(t, e.check("Load", false))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	name := newName()
	q := open(t, e, name)
	began := time.Now()
	keys := enqueue(t, ctx, q, jobs)
	enqueued := time.Since(began)
	l := newLoad(e)
	took := l.work(ctx, t, e, name, q, jobs)
	letters, err := q.Dead(ctx)
	must(t, err)
	ran, want, dead := l.audit(t, keys, letters)
	l.replay(t)
	t.Logf("%d jobs, %d done, %d dead letters; %d runs, %d expected; enqueued in %v, worked off in %v",
		jobs, jobs-dead, dead, ran, want,
		enqueued.Round(time.Millisecond), took.Round(time.Millisecond))
}

// A load records the attempts and the events of the jobs in the test Load.
type load struct {
	policy retry.Policy
	events bytes.Buffer // the events of all jobs, as lines of a log
	ended  atomic.Int64 // the number of events of the kind CallFinished

	mu   sync.Mutex       // guards runs
	runs map[string][]int // for each job, the numbers of its attempts in the order in which they ran
}

func newLoad(e Engine) *load {
	l := &load{policy: faultPolicy(e), runs: map[string][]int{}}
	writer := retrylog.NewWriter(&l.events)
	l.policy.OnEvent = func(ctx context.Context, event retry.Event) {
		writer.OnEvent(ctx, event)
		if event.Kind == retry.CallFinished {
			l.ended.Add(1)
		}
	}
	return l
}

// `do` runs one attempt of a job.
func (l *load) do(_ context.Context, key string, attempt int) error {
	l.mu.Lock()
	l.runs[key] = append(l.runs[key], attempt)
	l.mu.Unlock()
	if succeeds(key, attempt) {
		return nil
	}
	return errBoom
}

// The function `succeeds` reports whether an attempt succeeds. Seven of ten attempts succeed.
func succeeds(key string, attempt int) bool {
	return retry.SeedOf(fmt.Sprintf("%s/%d", key, attempt))%10 >= 3
}

// The method `work` runs the jobs on four workers, and returns the time that this took. The first
// worker uses the Queue q. Each of the other workers opens the queue itself.
func (l *load) work(
	ctx context.Context, t *testing.T, e Engine, name string, q Queue, jobs int,
) (took time.Duration) {
	t.Helper()
	began := time.Now()
	working, stop := context.WithCancel(ctx)
	defer stop()
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
			if errs[i] = q.Work(working, l.policy, l.do); errors.Is(errs[i], context.Canceled) {
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
		if l.ended.Load() < int64(jobs) {
			return false, nil
		}
		n, err := q.Open(ctx)
		return n == 0, err
	})
	took = time.Since(began)
	stop()
	workers.Wait()
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Errorf("%d of %d jobs ended: %v", l.ended.Load(), jobs, err)
	}
	return took
}

// The method `audit` reports the jobs that did not run as often as they must, and the jobs whose
// dead letters are wrong or missing. It returns the number of attempts that ran, the number of
// attempts that had to run, and the number of jobs that are dead letters.
func (l *load) audit(
	t *testing.T, keys []string, letters map[string]retryjob.DeadLetter,
) (ran, want, dead int) {
	t.Helper()
	for _, key := range keys {
		last := 1 // the number of the last attempt that must run
		for last < faultLimit && !succeeds(key, last) {
			last++
		}
		letter, is := letters[key]
		if is {
			dead++
		}
		ran, want = ran+len(l.runs[key]), want+last
		for _, fault := range auditLoaded(l.runs[key], last, succeeds(key, last), letter, is) {
			t.Errorf("%s: %s", key, fault)
		}
	}
	if len(letters) != dead {
		t.Errorf("%d dead letters, and %d of them are jobs", len(letters), dead)
	}
	return ran, want, dead
}

// The method `replay` makes each decision in the log again with the policy, and fails the test if a
// decision differs.
func (l *load) replay(t *testing.T) {
	t.Helper()
	records, err := retrylog.Read(&l.events)
	must(t, err)
	calls, err := retrylog.Replay(records)
	if err != nil {
		t.Error(err)
	}
	for _, c := range calls {
		if err := c.Check(l.policy); err != nil {
			t.Error(err)
		}
	}
}
