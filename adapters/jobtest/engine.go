// Package jobtest tests an adapter that connects retryjob with a job queue. The tests use the
// real server of the queue.
//
// Describe the queue as an [Engine]. Implement [Queue] with the code that a user of your adapter
// would write. Then call the tests:
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
	"fmt"
	"testing"
	"time"
)

// An Engine describes an adapter under test and the promises of its queue. You must set Open,
// Unit and Late. You must also set Lease, unless InProcess is true.
type Engine struct {
	// Open opens the queue with this name, and creates the queue if it does not exist. A name
	// consists of a to z, 0 to 9 and _, and has at most 40 characters. Queues with different names
	// must share nothing. The tests may open the same queue several times at once, in different
	// processes.
	Open func(ctx context.Context, name string) (Queue, error)

	// Unit is the shortest delay that the queue can keep. The policies of the tests have delays of 1
	// to 3 units. If the queue stores whole seconds, use a second. If the queue polls, use a few poll
	// intervals. For any other queue, 50ms is a good value.
	Unit time.Duration

	// Late is the longest time that may pass between the planned time of an attempt and its beginning.
	// Choose a value that allows for the precision of the queue and for a busy machine. No attempt may
	// begin early.
	Late time.Duration

	// Lease is the longest time from the death of a worker until the queue delivers its job again.
	// Configure a short lease in the queue, because the tests wait that long.
	Lease time.Duration

	// If Uncounted is true, the queue does not count an attempt that was interrupted because its
	// worker stopped. The next attempt must then have the same number. If Uncounted is false and the
	// worker of a job stops in the last attempt, the job must become a dead letter.
	Uncounted bool

	// If InProcess is true, the queue lives in the memory of this process, so no other process can
	// open the queue. The test Run then leaves out the jobs whose worker is killed or panics. The
	// tests Kills and Redrive fail for such a queue. Test the Redrive of a queue in memory without
	// this package.
	InProcess bool

	// If Forgets is true, the queue's server may forget its last deliveries when a worker stops, or
	// when a worker or the server crashes. After that, the tests check only that each job ends and
	// that no job is lost.
	Forgets bool

	// If Repeats is true, a job can be in the queue twice after a worker, or a process that calls
	// Redrive, was killed. For each kill, one job may then run twice and leave a second dead letter.
	Repeats bool

	// If Classes is true, the queue counts the failures of each class: it stores the Classes of each
	// [retryjob.Outcome]. If Classes is false, each class counts all failures of the job.
	Classes bool
}

// The method `check` returns an error if the test function with this name cannot test e. If `kills`
// is true, the function kills processes.
func (e Engine) check(name string, kills bool) error {
	switch {
	case e.Open == nil || e.Unit <= 0 || e.Late <= 0:
		return fmt.Errorf("jobtest: %s needs Engine.Open, and Unit and Late above 0", name)
	case kills && e.InProcess:
		return fmt.Errorf("jobtest: %s kills processes, but Engine.InProcess says that this queue "+
			"lives in one process: do not call %s", name, name)
	case kills && e.Lease <= 0:
		return fmt.Errorf("jobtest: %s kills workers, but Engine.Lease is not above 0: "+
			"set Engine.Lease, or set Engine.InProcess", name)
	}
	return nil
}

// `must` ends the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
