package retryasynq_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/jobtest"
	"github.com/goretry/retry/adapters/jobtest/servers"
	"github.com/goretry/retry/adapters/retryasynq"
	"github.com/goretry/retry/retryjob"
)

// These tests spend most of their time waiting for leases to expire, so many run
// in parallel.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func TestEngine(t *testing.T) {
	t.Parallel()
	jobtest.Run(t, engine(address(t)))
}

// .ci/soak runs these tests with more jobs and kills.

func TestLoad(t *testing.T) {
	t.Parallel()
	jobtest.Load(t, engine(address(t)), servers.Amount(t, "RETRY_JOBS", 1000))
}

func TestKills(t *testing.T) {
	t.Parallel()
	jobtest.Kills(t, engine(address(t)), servers.Amount(t, "RETRY_KILLS", 30))
}

func TestRedrive(t *testing.T) {
	t.Parallel()
	jobtest.Redrive(t, engine(address(t)), servers.Amount(t, "RETRY_KILLS", 10))
}

// Redis restarts under load. Every second restart follows a crash.
func TestRestarts(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	e := engine(s.Address)
	e.Open = func(_ context.Context, name string) (jobtest.Queue, error) {
		q := open(s.Address, name)
		q.recoverEvery = 3 * time.Second
		return q, nil
	}
	jobtest.Restarts(t, e, 200, servers.Amount(t, "RETRY_RESTARTS", 2), func(n int) error {
		if n%2 == 0 {
			s.Stop()
		} else {
			s.Crash()
		}
		s.Start()
		return nil
	})
}

func address(t *testing.T) string { return servers.Shared(t, "RETRY_TEST_REDIS") }

func engine(address string) jobtest.Engine {
	return jobtest.Engine{
		Open: func(_ context.Context, name string) (jobtest.Queue, error) { return open(address, name), nil },
		Unit: time.Second,      // asynq stores whole seconds
		Late: 30 * time.Second, // because the machine may be busy
		// A lease lasts 30 s, and every minute asynq looks for leases that expired
		// at least 30 s ago.
		Lease:     2 * time.Minute,
		Uncounted: true,
	}
}

// A queue is a queue of asynq with its clients.
type queue struct {
	name         string
	redis        asynq.RedisClientOpt
	client       *asynq.Client
	inspector    *asynq.Inspector
	recoverEvery time.Duration // how often to look for expired leases; 0: every minute, as asynq does
}

func open(address, name string) *queue {
	redis := asynq.RedisClientOpt{Addr: address, PoolSize: 4}
	return &queue{name: name, redis: redis, client: asynq.NewClient(redis), inspector: asynq.NewInspector(redis)}
}

const taskType = "jobtest"

func (q *queue) Enqueue(ctx context.Context, key string, maxAttempts int) error {
	opts := []asynq.Option{asynq.Queue(q.name), asynq.TaskID(key)}
	if maxAttempts > 0 {
		opts = append(opts, asynq.MaxRetry(maxAttempts-1))
	}
	_, err := q.client.EnqueueContext(ctx, retryasynq.NewTask(taskType, []byte(key), opts...))
	return err
}

// Plant enqueues tasks with impossible headers.
func (q *queue) Plant(ctx context.Context, keys []string) error {
	for i, key := range keys {
		headers := []map[string]string{{"retry-max-attempts": "0"}, {"retry-max-attempts": "9223372036854775808"}, {"retry-since": "soon"},
			{"retry-since": "9999-12-31T23:59:59Z"}, {"retry-redrive-of": "x"}, {"big": strings.Repeat("x", 1<<20)}}[i%6]
		task := asynq.NewTaskWithHeaders(taskType, []byte(key), headers, asynq.Queue(q.name), asynq.TaskID(key), asynq.Timeout(time.Hour))
		if _, err := q.client.EnqueueContext(ctx, task); err != nil {
			return err
		}
	}
	return nil
}

// Forge archives tasks of three kinds: the last error is not a dead letter, the dead letter
// describes another end, or the task names another queue.
func (q *queue) Forge(ctx context.Context, keys []string) (err error) {
	const lastErr, lastFailedAt, inQueue, letter = 7<<3 | 2, 11 << 3, 4<<3 | 2, `{"attempts":1,"reason":"permanent_error"}` // the first three are tags of protobuf fields of asynq's message
	text := func(field byte, s string) []byte { return append([]byte{field, byte(len(s))}, s...) }
	client := q.redis.MakeRedisClient().(redis.UniversalClient)
	defer func() { err = errors.Join(err, client.Close()) }()
	for i, key := range keys {
		task := retryasynq.NewTask(taskType, []byte(key), asynq.Queue(q.name), asynq.TaskID(key), asynq.ProcessIn(time.Hour))
		if _, err := q.client.EnqueueContext(ctx, task); err != nil {
			return err
		}
		if err := q.inspector.ArchiveTask(q.name, key); err != nil {
			return err
		}
		forged := [][]byte{nil, text(lastErr, `{"attempts":1}`), text(lastErr, letter), append(text(lastErr, letter), lastFailedAt, 1),
			append(text(lastErr, letter), text(inQueue, "other")...)}[i%5]
		at := "asynq:{" + q.name + "}:t:" + key
		message, err := client.HGet(ctx, at, "msg").Bytes()
		if err == nil {
			err = client.HSet(ctx, at, "msg", append(message, forged...)).Err() // the last value of a field counts
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (q *queue) Work(ctx context.Context, p retry.Policy, do func(context.Context, string, int) error) error {
	handle := func(ctx context.Context, task *asynq.Task) error {
		retried, _ := asynq.GetRetryCount(ctx)
		return do(ctx, string(task.Payload()), retried+1)
	}
	server, mux, err := q.server(p, handle)
	if err != nil {
		return err
	}
	// asynq waits only for ShutdownTimeout. If an attempt ended later, another worker would run it
	// again.
	var running sync.WaitGroup
	defer running.Wait()
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		running.Add(1)
		defer running.Done()
		return mux.ProcessTask(ctx, task)
	})); err != nil {
		return err
	}
	defer server.Shutdown()
	for q.recoverEvery > 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(q.recoverEvery):
		}
		// A server looks for expired leases when it starts.
		another, mux, err := q.server(p, handle)
		if err != nil {
			return err
		}
		if err := another.Start(mux); err != nil {
			return err
		}
		another.Shutdown()
	}
	<-ctx.Done()
	return nil
}

// server returns an asynq server with the Middleware for p, and its handler.
func (q *queue) server(p retry.Policy, handle asynq.HandlerFunc) (*asynq.Server, asynq.Handler, error) {
	retries, err := retryasynq.New(p)
	if err != nil {
		return nil, nil, err
	}
	config := asynq.Config{
		Concurrency:              10,
		Queues:                   map[string]int{q.name: 1},
		TaskCheckInterval:        50 * time.Millisecond,
		DelayedTaskCheckInterval: 100 * time.Millisecond,
		ShutdownTimeout:          time.Second,
		LogLevel:                 asynq.FatalLevel,
	}
	if q.recoverEvery > 0 {
		// Work stops servers while tasks run. If an attempt ends later than ShutdownTimeout, asynq gives
		// the task back and does not count the attempt, even if the attempt fails. The task would then
		// run again with the same number.
		config.ShutdownTimeout = time.Minute
	}
	retries.Configure(&config)
	mux := asynq.NewServeMux()
	mux.Use(retries.Middleware)
	mux.HandleFunc(taskType, handle)
	return asynq.NewServer(q.redis, config), mux, nil
}

func (q *queue) Open(context.Context) (int, error) {
	info, err := q.inspector.GetQueueInfo(q.name)
	if errors.Is(err, asynq.ErrQueueNotFound) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	return info.Pending + info.Active + info.Scheduled + info.Retry, nil
}

func (q *queue) Dead(context.Context) (map[string]retryjob.DeadLetter, error) {
	const size = 1000
	letters := map[string]retryjob.DeadLetter{}
	for page := 1; ; page++ {
		tasks, err := q.inspector.ListArchivedTasks(q.name, asynq.PageSize(size), asynq.Page(page))
		if err != nil {
			return nil, err
		}
		for _, task := range tasks {
			if strings.HasPrefix(string(task.Payload), jobtest.ForgedPrefix) {
				continue
			}
			d, err := retryasynq.DeadLetterOf(task)
			if err != nil {
				return nil, err
			}
			letters[string(task.Payload)] = d
		}
		if len(tasks) < size {
			return letters, nil
		}
	}
}

func (q *queue) Redrive(ctx context.Context, o retryjob.RedriveOptions) (retryjob.RedriveResult, error) {
	return retryasynq.Redrive(ctx, q.redis, q.name, o)
}

func (q *queue) Close(_ context.Context, remove bool) error {
	var err error
	if remove {
		err = q.inspector.DeleteQueue(q.name, true)
	}
	return errors.Join(err, q.client.Close(), q.inspector.Close())
}
