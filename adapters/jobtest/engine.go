// Package jobtest tests an adapter that connects retryjob with a job queue. The tests use the
// real server of the queue.
//
// Describe the queue as an [Engine]. Implement [Queue] as users of your adapter would write
// their worker. Then call the tests:
//
//	func TestEngine(t *testing.T) { jobtest.Run(t, engine) }
//	func TestLoad(t *testing.T)   { jobtest.Load(t, engine, 1000) }
//	func TestKills(t *testing.T)  { jobtest.Kills(t, engine, 5) }
//
// [Run] checks single jobs: how often and when a job runs, why it ends, and what its dead
// letter says. Run also kills the workers of some jobs. [Load], [Kills], [Restarts] and
// [Redrive] run many jobs.
//
// A worker can only be killed together with its process. So [Run], [Kills] and [Redrive] start
// the test program a second time, with the same test selected. The second process also runs the
// code that precedes the call in the test function, but it never runs the cleanup. So call Run,
// Kills or Redrive in the first line of the test function.
//
// If the queue lives in the memory of one process, set [Engine].InProcess, and use only [Run],
// [Load] and [Restarts].
package jobtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// An Engine describes an adapter under test and the promises of its queue. You must set Open,
// Unit and Late. You must also set Lease, unless InProcess is true.
type Engine struct {
	// Open opens the queue with this name, and creates the queue if it does not exist. A name
	// consists of a to z, 0 to 9 and _, and has at most 40 characters. Queues with different names
	// must share nothing. The tests may open the same queue several times at once, in different
	// processes.
	Open func(ctx context.Context, name string) (Queue, error)

	// Unit is the shortest delay that makes sense for the queue. The policies of the tests have delays
	// of 1 to 3 units. If the queue stores whole seconds, use a second. If the queue polls, use a few
	// times its poll interval. For any other queue, 50ms is a good value.
	Unit time.Duration

	// Late is how late an attempt may begin after its planned time. Choose it for the precision of
	// the queue and for a busy machine. No attempt may begin early.
	Late time.Duration

	// Lease is the longest time from the death of a worker until the queue delivers its job again.
	// Configure a short lease in the queue, because the tests wait that long.
	Lease time.Duration

	// Uncounted says that the queue does not count an attempt that was interrupted because its
	// worker stopped. Then the next attempt must have the same number. If Uncounted is false and
	// the worker of a job stops in the last attempt, the job must become a dead letter.
	Uncounted bool

	// InProcess says that the queue lives in the memory of this process, so that no other process can
	// open it. Run then leaves out the jobs whose worker is killed or panics. Kills and Redrive fail.
	// Test the Redrive of a queue in memory without this package.
	InProcess bool

	// Forgets says that the queue's server may forget its last deliveries when a worker or the
	// server crashes. After such a crash, the tests check only that each job ends and that no job
	// is lost.
	Forgets bool

	// Repeats says that a job can be in the queue twice if a worker or a process in Redrive is
	// killed. Then for each kill, one job may run twice and leave a second dead letter.
	Repeats bool

	// Classes says that the queue counts the failures of each class: it stores the Classes of each
	// [retryjob.Outcome]. If Classes is false, each class counts all failures of the job.
	Classes bool
}

// check returns an error if the test function with this name cannot test e. If kills is true,
// the function kills processes.
func (e Engine) check(name string, kills bool) error {
	switch {
	case e.Open == nil || e.Unit <= 0 || e.Late <= 0:
		return fmt.Errorf("jobtest: %s needs Engine.Open, and Unit and Late above 0", name)
	case kills && e.InProcess:
		return fmt.Errorf("jobtest: %s kills processes, and this queue lives in one process", name)
	case kills && e.Lease <= 0:
		return fmt.Errorf("jobtest: %s kills workers: set Engine.Lease, or set Engine.InProcess", name)
	}
	return nil
}

// A Queue is an open queue of an [Engine]. Its methods must be safe for concurrent
// use.
type Queue interface {
	// Enqueue adds a job with this key, which is to run now. maxAttempts is the job's own limit on
	// attempts. If maxAttempts is 0, the job has no limit of its own.
	Enqueue(ctx context.Context, key string, maxAttempts int) error

	// Work runs the jobs of the queue with the policy p, ten at a time, until ctx ends. Then Work
	// cancels the contexts of the running jobs, and waits until their functions have returned. It
	// gives these jobs back to the queue, and returns nil or the context's error.
	//
	// Work calls `do` for each attempt of a job, with the key of the job and with the number that
	// the adapter has given the attempt.
	Work(
		ctx context.Context, p retry.Policy,
		do func(ctx context.Context, key string, attempt int) error,
	) error

	// Open returns how many jobs are neither done nor dead letters.
	Open(ctx context.Context) (int, error)

	// Dead returns the dead letters by the keys of their jobs. It reads them as an operator would.
	Dead(ctx context.Context) (map[string]retryjob.DeadLetter, error)

	// Close closes the queue. If remove is true, Close also deletes the queue and everything that
	// belongs to the queue from the server.
	Close(ctx context.Context, remove bool) error
}

// A Redriver is a Queue whose dead letters can be moved back to the queue.
type Redriver interface {
	Queue

	// Redrive moves dead letters back to the queue, by calling Redrive of the adapter.
	Redrive(ctx context.Context, o retryjob.RedriveOptions) (retryjob.RedriveResult, error)
}

// An Operator is a Redriver whose jobs can be stopped by hand.
type Operator interface {
	Redriver

	// Stop cancels a job before a worker can take the job. If the job still is a dead letter, Stop
	// first moves it back to the queue. If a worker has already taken the job, Stop returns false
	// and changes nothing.
	Stop(ctx context.Context, key string) (bool, error)
}

// A Stranger is a Queue to which a producer can write any message.
type Stranger interface {
	Queue

	// Plant adds a hostile message for each key. For example, the headers of a message cannot be
	// parsed, or a message is too large to be copied. Each of these messages must succeed or
	// become a dead letter.
	Plant(ctx context.Context, keys []string) error
}

// A Forger is a Redriver to which anybody can write forged dead letters.
type Forger interface {
	Redriver

	// Forge adds a forged dead letter for each key. The adapter must not move a forged letter back to
	// the queue. For example, a forged letter cannot be parsed, describes the end of another run, or
	// names a destination outside the queue. The reason of a forged letter is missing or
	// ReasonPermanent. Dead must not return forged letters.
	Forge(ctx context.Context, keys []string) error
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
