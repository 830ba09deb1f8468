// Package jobtest tests an integration of [retryjob] with a job queue, against
// the queue's real server.
//
// Describe the queue as an [Engine] and its worker as a [Queue], written as the
// queue's own users would write it, and call [Run] from a test. It checks what
// every policy promises: how often and when a job runs, why it stops, what its dead
// letter says, and that this holds when a worker is killed.
//
//	func TestEngine(t *testing.T) { jobtest.Run(t, engine) }
//	func TestLoad(t *testing.T)   { jobtest.Load(t, engine, 1000) }
//	func TestKills(t *testing.T)  { jobtest.Kills(t, engine, 5) }
//
// A worker can only be killed with its process. [Run], [Kills] and [Redrive] therefore start
// the test's own program again, with the same test selected. Call them first in the
// test function: each of these processes repeats what comes before, and never
// cleans up. A queue that lives in the memory of one process sets [Engine].InProcess, and
// uses [Run], [Load] and [Restarts].
package jobtest

import (
	"context"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// An Engine is an integration under test, and what its queue promises. Open, Unit and Late
// must be set, and Lease unless the queue is InProcess.
type Engine struct {
	// Open opens the queue of this name, and creates it if it does not exist. A
	// name consists of a to z, 0 to 9 and _, and has at most 40 characters. Queues
	// of different names share nothing. One queue may be open many times at once,
	// in different processes.
	Open func(ctx context.Context, name string) (Queue, error)

	// Unit is the shortest delay that is worth planning: the table plans delays
	// of 1 to 3 units. Use a second if the queue stores whole seconds, or a few
	// times its poll interval. If it has neither, 50ms is a good value.
	Unit time.Duration

	// Late is how long after it is due an attempt may begin. It covers the
	// granularity of the queue, and some room for a busy machine. No attempt may
	// begin early.
	Late time.Duration

	// Lease is the longest time after which the queue hands out a job again whose
	// worker was killed. Set up the queue with a short one, because tests wait for
	// it.
	Lease time.Duration

	// Uncounted says that the queue does not count an attempt that was
	// interrupted because its worker stopped: the next one has the same number. If it is
	// false, a job whose worker stops in the last attempt must become a dead letter.
	Uncounted bool

	// InProcess says that the queue lives in the memory of this process, so that no other
	// process can open it. Run then leaves out the rows in which a worker is killed or
	// panics, and Kills and Redrive fail: test the Redrive of the queue without this package.
	InProcess bool

	// Forgets says that the queue's server may forget what it handed out last when
	// a worker or the server itself crashes. After such a crash tests only check
	// that no job is lost and that each ends.
	Forgets bool

	// Repeats says that a worker or redriver that is killed can leave a job in the queue
	// twice: for each kill one may run again, and leave a dead letter of its own.
	Repeats bool

	// Classes says that the queue keeps how many failures of each class a job had: it stores
	// the Classes of each [retryjob.Outcome]. Otherwise each class is counted by all failures.
	Classes bool
}

// check returns an error if the function of this name cannot test e. It kills processes if
// kills is set.
func (e Engine) check(name string, kills bool) error {
	switch {
	case e.Open == nil || e.Unit <= 0 || e.Late <= 0:
		return fmt.Errorf("jobtest: %s needs Engine.Open, and a Unit and a Late above 0", name)
	case kills && e.InProcess:
		return fmt.Errorf("jobtest: %s kills processes, and this queue lives in one process", name)
	case kills && e.Lease <= 0:
		return fmt.Errorf("jobtest: %s kills workers: set Engine.Lease, or InProcess", name)
	}
	return nil
}

// A Queue is an open queue of an [Engine]. Its methods must be safe for concurrent
// use.
type Queue interface {
	// Enqueue adds a job with this key, to run now. A maxAttempts above 0 is the
	// job's own limit.
	Enqueue(ctx context.Context, key string, maxAttempts int) error

	// Work runs the queue's jobs with the policy p, ten at a time, until ctx ends.
	// Then it cancels the contexts of the jobs that are running, waits until they
	// have returned, gives them back to the queue, and returns nil or the context's
	// error. The attempt passed to do is the number that the integration gives it.
	Work(ctx context.Context, p retry.Policy, do func(ctx context.Context, key string, attempt int) error) error

	// Open returns how many jobs are neither done nor dead letters.
	Open(ctx context.Context) (int, error)

	// Dead returns the dead letters by key, as an operator would find them.
	Dead(ctx context.Context) (map[string]retryjob.DeadLetter, error)

	// Close closes the queue. With remove it also deletes everything that belongs
	// to the queue from the server.
	Close(ctx context.Context, remove bool) error
}

// A Redriver is a Queue whose dead letters can go back.
type Redriver interface {
	Queue
	Redrive(ctx context.Context, o retryjob.RedriveOptions) (retryjob.RedriveResult, error)
}

// An Operator is a Redriver whose jobs can be stopped by hand.
type Operator interface {
	Redriver

	// Stop lets a job run again if it is a dead letter, and cancels it before a worker
	// can take it. It returns false, and changes nothing, if a worker has it or had it
	// since it went back.
	Stop(ctx context.Context, key string) (bool, error)
}

// A Stranger is a Queue that lets a producer write what it likes.
type Stranger interface {
	Queue

	// Plant adds a message for each key that is as hard to handle as one can be: its headers
	// cannot be read, or it is too large to be copied. Each must end, done or as a dead
	// letter.
	Plant(ctx context.Context, keys []string) error
}

// A Forger is a Redriver whose dead letters a stranger can write.
type Forger interface {
	Redriver

	// Forge adds something for each key that lies among the dead letters, and must not go
	// back: it cannot be read, describes the end of another run, or names a place that is not
	// the queue's. Its reason, if it has one, is ReasonPermanent. Dead leaves it out.
	Forge(ctx context.Context, keys []string) error
}
