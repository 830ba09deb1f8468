// Package jobtest tests an adapter between [retryjob] and a job queue, against the queue's
// real server.
//
// Describe the queue as an [Engine], and write its worker as a [Queue], as users of your
// adapter would write it. Then call the tests:
//
//	func TestEngine(t *testing.T) { jobtest.Run(t, engine) }
//	func TestLoad(t *testing.T)   { jobtest.Load(t, engine, 1000) }
//	func TestKills(t *testing.T)  { jobtest.Kills(t, engine, 5) }
//
// [Run] checks how often and when a job runs, why it ends, what its dead letter says, and
// that all this holds when a worker is killed. [Load], [Kills], [Restarts] and [Redrive] run
// many jobs.
//
// A worker can only be killed together with its process. So [Run], [Kills] and [Redrive] start
// the program of the test again, with the same test selected. Call them first in the test
// function: each of these processes repeats the code before the call, and never cleans up. A
// queue that lives in the memory of one process sets [Engine].InProcess, and uses [Run],
// [Load] and [Restarts].
package jobtest

import (
	"context"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// An Engine describes an adapter under test, and what its queue promises. Open, Unit and
// Late must be set, and Lease unless the queue is InProcess.
type Engine struct {
	// Open opens the queue of this name, and creates the queue if it does not exist. A
	// name consists of a to z, 0 to 9 and _, and has at most 40 characters. Queues
	// with different names share nothing. One queue may be open many times at once,
	// in different processes.
	Open func(ctx context.Context, name string) (Queue, error)

	// Unit is the shortest delay that is worth planning. The tests plan delays of 1 to 3
	// units. If the queue stores whole seconds, use a second. If the queue polls, use a
	// few times its poll interval. Otherwise 50ms is a good value.
	Unit time.Duration

	// Late is how long after its planned time an attempt may begin. It covers the
	// granularity of the queue, and the delays of a busy machine. No attempt may begin
	// early.
	Late time.Duration

	// Lease is the longest time until the queue delivers the job of a killed worker
	// again. Configure the queue with a short lease, because the tests wait for it.
	Lease time.Duration

	// Uncounted says that the queue does not count an attempt that was interrupted
	// because its worker stopped. Then the next attempt has the same number. If Uncounted is
	// false, a job whose worker stops in the last attempt must become a dead letter.
	Uncounted bool

	// InProcess says that the queue lives in the memory of this process, so that no other
	// process can open it. Run then leaves out the rows in which a worker is killed or
	// panics, and Kills and Redrive fail: test the Redrive of the queue without this package.
	InProcess bool

	// Forgets says that the queue's server may forget its last deliveries when a worker
	// or the server itself crashes. After such a crash the tests only check that no job
	// is lost, and that each job ends.
	Forgets bool

	// Repeats says that a worker or redriver that is killed can leave a job in the queue
	// twice. Then one job for each kill may run again, and leave a second dead letter.
	Repeats bool

	// Classes says that the queue keeps how many failures of each class a job had: it
	// stores the Classes of each [retryjob.Outcome]. Otherwise
	// all failures of the job count for each class.
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
	// job's own limit. With 0 the job has no limit of its own.
	Enqueue(ctx context.Context, key string, maxAttempts int) error

	// Work runs the queue's jobs with the policy p, ten at a time, until ctx ends.
	// Then Work cancels the contexts of the jobs that are running, waits until they
	// have returned, gives them back to the queue, and returns nil or the context's
	// error. The attempt passed to do is the number that the adapter gives the attempt.
	Work(
		ctx context.Context, p retry.Policy,
		do func(ctx context.Context, key string, attempt int) error,
	) error

	// Open returns how many jobs are neither done nor dead letters.
	Open(ctx context.Context) (int, error)

	// Dead returns the dead letters by key, as an operator would find them.
	Dead(ctx context.Context) (map[string]retryjob.DeadLetter, error)

	// Close closes the queue. If remove is true, Close also deletes everything that
	// belongs to the queue from the server.
	Close(ctx context.Context, remove bool) error
}

// A Redriver is a Queue whose dead letters can go back.
type Redriver interface {
	Queue

	// Redrive moves dead letters back, as the Redrive of the adapter does.
	Redrive(ctx context.Context, o retryjob.RedriveOptions) (retryjob.RedriveResult, error)
}

// An Operator is a Redriver whose jobs can be stopped by hand.
type Operator interface {
	Redriver

	// Stop lets a job run again if the job is a dead letter, and cancels the job before a
	// worker can take it. Stop returns false, and changes nothing, if a worker has taken
	// the job since it went back.
	Stop(ctx context.Context, key string) (bool, error)
}

// A Stranger is a Queue to which a producer can write any message.
type Stranger interface {
	Queue

	// Plant adds a hostile message for each key: its headers cannot be read, or the
	// message is too large to be copied. Each message must end, done or as a dead letter.
	Plant(ctx context.Context, keys []string) error
}

// A Forger is a Redriver to which a stranger can write dead letters.
type Forger interface {
	Redriver

	// Forge adds a forged dead letter for each key. A forged letter must not go back: it
	// cannot be read, describes the end of another run, or names a destination outside the
	// queue. If it has a reason, the reason is ReasonPermanent. Dead leaves it out.
	Forge(ctx context.Context, keys []string) error
}
