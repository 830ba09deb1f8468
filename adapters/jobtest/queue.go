package jobtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// A Queue is an open queue of an [Engine]. Its methods must be safe for concurrent
// use.
type Queue interface {
	// Enqueue adds a job with this key. The job must run at once. The parameter maxAttempts is the
	// job's own limit on attempts. If maxAttempts is 0, the job has no limit of its own.
	Enqueue(ctx context.Context, key string, maxAttempts int) error

	// Work runs the jobs of the queue with the policy p, ten at a time, until ctx is done. Then Work
	// cancels the contexts of the running jobs, and waits until their functions have returned. It
	// gives these jobs back to the queue, and returns nil or the context's error.
	//
	// Work calls `do` for each attempt of a job, with the key of the job and with the number that
	// the adapter has given the attempt.
	Work(
		ctx context.Context, p retry.Policy,
		do func(ctx context.Context, key string, attempt int) error,
	) error

	// Open returns the number of jobs that are neither done nor dead letters.
	Open(ctx context.Context) (int, error)

	// Dead returns the dead letters by the keys of their jobs. It reads them as an operator would.
	Dead(ctx context.Context) (map[string]retryjob.DeadLetter, error)

	// Close closes the queue. If `remove` is true, Close also deletes the queue and everything that
	// belongs to the queue from the server.
	Close(ctx context.Context, remove bool) error
}

// A Redriver is a Queue whose dead letters can be moved back to the queue.
type Redriver interface {
	Queue

	// Redrive calls the Redrive of the adapter, which moves dead letters back to the queue.
	Redrive(ctx context.Context, o retryjob.RedriveOptions) (retryjob.RedriveResult, error)
}

// An Operator is a Redriver whose jobs can be stopped by hand.
type Operator interface {
	Redriver

	// Stop cancels a job before a worker can take the job. If the job is still a dead letter, Stop
	// first moves the job back to the queue, because a queue may refuse to cancel a dead letter. If a
	// worker has already taken the job, Stop returns false and changes nothing.
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

// PlantedPrefix is the start of each key that the test Kills passes to the method Plant of a
// [Stranger]. So your Queue can recognize hostile messages by their keys.
const PlantedPrefix = "planted-"

// A Forger is a Redriver to which anybody can write forged dead letters.
type Forger interface {
	Redriver

	// Forge adds a forged dead letter for each key. The adapter must not move a forged letter back to
	// the queue. For example, a forged letter cannot be parsed, contradicts what the queue itself has
	// stored about the last attempt, or names a destination outside the queue. The reason of a forged
	// letter is missing or ReasonPermanent. The method Dead must not return forged letters.
	Forge(ctx context.Context, keys []string) error
}

// ForgedPrefix is the start of each key that the test Redrive passes to the method Forge of a
// [Forger]. So your method Dead can recognize forged dead letters by their keys.
const ForgedPrefix = "forged-"

// newName returns a random name for a queue. No other test uses this name.
func newName() string { return "jobtest_" + strings.ToLower(rand.Text())[:16] }

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

// The function `enqueue` adds jobs to the queue and returns their keys. The parameter `jobs` is the
// number of jobs.
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
