package retryasynq_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryasynq"
	"github.com/goretry/retry/retryjob"
)

// A redriven task keeps its options, and its ID says how often it was moved. If a killed
// process has enqueued a task without deleting the archived task, the task is not enqueued
// again, even if it is done.
func TestRedriveKeepsTheTask(t *testing.T) {
	t.Parallel()
	var works atomic.Bool
	s := newService(t, func(context.Context, *asynq.Task) error {
		if works.Load() {
			return nil
		}
		return errBoom
	})
	archived := s.end(retryasynq.NewTask("mail", []byte("hello"), asynq.TaskID("a~b"), asynq.MaxRetry(1)))
	redrive := func(want retryjob.RedriveResult) {
		t.Helper()
		result, err := retryasynq.Redrive(t.Context(), s.redis, archived.Queue, retryjob.RedriveOptions{})
		require.NoError(t, err)
		assert.Equal(t, want, result)
	}
	one := retryjob.RedriveResult{Found: 1, Moved: 1}
	for _, id := range []string{"a~b~1", "a~b~2"} {
		redrive(one)
		again := s.await(id, asynq.TaskStateArchived)
		assert.Equal(t, [...]any{archived.Type, string(archived.Payload), archived.MaxRetry, archived.Timeout},
			[...]any{again.Type, string(again.Payload), again.MaxRetry, again.Timeout})
		assert.Equal(t, 2, s.letter(again).Attempts)
	}
	works.Store(true)
	done := func(payload string, headers map[string]string) {
		t.Helper()
		_, err := s.client.Enqueue(asynq.NewTaskWithHeaders("mail", []byte(payload), headers, asynq.TaskID("a~b~3"), asynq.Queue(archived.Queue), asynq.Retention(time.Hour)))
		require.NoError(t, err)
		s.await("a~b~3", asynq.TaskStateCompleted)
	}
	end := s.letter(s.await("a~b~2", asynq.TaskStateArchived)).Ended
	copied := map[string]string{"retry-redrive-of": "a~b~2 " + end.Format(time.RFC3339Nano)}
	for _, other := range []struct {
		payload string
		headers map[string]string
	}{ // other tasks that have the ID of the next copy
		{"hello", nil},
		{"hello", map[string]string{"retry-redrive-of": "a~b~2"}},
		{"hello", map[string]string{"retry-redrive-of": "a~b~2 " + end.Add(-time.Second).Format(time.RFC3339Nano)}}, // of an earlier life
		{"bye", copied},
	} {
		done(other.payload, other.headers)
		redrive(retryjob.RedriveResult{Found: 1, Skipped: 1})
		require.NoError(t, s.inspector.DeleteTask(archived.Queue, "a~b~3"))
	}
	done("hello", copied)
	redrive(one)
	redrive(retryjob.RedriveResult{})
}

// Each attempt, the archived task and the redriven task have the headers of the producer, whatever
// the names of these headers are.
func TestHeadersOfProducers(t *testing.T) {
	t.Parallel()
	headers := map[string]string{"x-tenant": "acme", "X-Tenant": "other", "traceparent": "00-1", "retry": "mine", "asynq": "mine"}
	var mu sync.Mutex
	var seen []map[string]string
	s := newService(t, func(_ context.Context, task *asynq.Task) error {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, task.Headers())
		return errBoom
	})
	s.end(asynq.NewTaskWithHeaders("mail", nil, headers, asynq.TaskID("a"), asynq.MaxRetry(1)))
	_, err := retryasynq.Redrive(t.Context(), s.redis, s.name, retryjob.RedriveOptions{})
	require.NoError(t, err)
	seen = append(seen, s.await("a~1", asynq.TaskStateArchived).Headers)
	require.Len(t, seen, 5)
	for n, got := range seen {
		assert.Subset(t, got, headers, n)
	}
}

// A dead letter is valid only for the end that it describes. It is not valid any more after an
// operator has run the task again, and has archived or deleted it before it ran.
func TestADeadLetterOfAnEarlierEnd(t *testing.T) {
	t.Parallel()
	s := newService(t, func(context.Context, *asynq.Task) error { return retry.Permanent(errBoom) })
	stop := func() {
		failed, err := s.inspector.GetTaskInfo(s.name, "a")
		require.NoError(t, err)
		time.Sleep(time.Until(failed.LastFailedAt.Add(time.Second))) // asynq stores whole seconds
		assert.NoError(t, s.inspector.PauseQueue(s.name))
		assert.NoError(t, s.inspector.RunTask(s.name, "a"))
		assert.NoError(t, s.inspector.ArchiveTask(s.name, "a"))
	}
	resume := func() {
		if info, err := s.inspector.GetQueueInfo(s.name); assert.NoError(t, err) && info.Paused {
			require.NoError(t, s.inspector.UnpauseQueue(s.name))
		}
	}
	redrive := func(o retryjob.RedriveOptions, want retryjob.RedriveResult) {
		t.Helper()
		result, err := retryasynq.Redrive(t.Context(), s.redis, s.name, o)
		require.NoError(t, err)
		assert.Equal(t, want, result)
	}
	skipped := retryjob.RedriveResult{Found: 1, Skipped: 1}
	s.end(retryasynq.NewTask("mail", nil, asynq.TaskID("a")))
	stop()
	redrive(retryjob.RedriveOptions{}, skipped)
	require.NoError(t, s.inspector.RunTask(s.name, "a")) // the operator runs the task again, and the task fails again
	resume()
	s.await("a", asynq.TaskStateArchived)
	redrive(retryjob.RedriveOptions{DryRun: true}, retryjob.RedriveResult{Found: 1, Moved: 1})
	for name, meanwhile := range map[string]func(){"archived": stop, "deleted": func() { assert.NoError(t, s.inspector.DeleteTask(s.name, "a")) }} {
		_ = s.inspector.DeleteTask(s.name, "a") // the task may be gone already
		s.end(retryasynq.NewTask("mail", nil, asynq.TaskID("a")))
		redrive(retryjob.RedriveOptions{Filter: func(retryjob.DeadLetter) bool { meanwhile(); return true }}, skipped)
		_, err := s.inspector.GetTaskInfo(s.name, "a~1")
		assert.ErrorIs(t, err, asynq.ErrTaskNotFound, name)
		resume()
	}
}

// The data of an archived task are not trusted. If a task cannot go back, Redrive still goes
// on.
func TestRedriveOfAStrangersTasks(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(s *service, message []byte) []byte
		want   string
	}{
		"another queue": {func(s *service, message []byte) []byte {
			return bytes.ReplaceAll(message, []byte(s.name), []byte(strings.Replace(s.name, "retry", "other", 1)))
		}, `"a": task a is in queue "retryasynq_`},
		"no type": {func(_ *service, message []byte) []byte {
			return bytes.Replace(message, []byte("\x0a\x04mail"), nil, 1)
		}, `"a": task a: task typename cannot be empty`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, func(context.Context, *asynq.Task) error { return retry.Permanent(errBoom) })
			for _, id := range []string{"a", "b", "c"} {
				s.end(retryasynq.NewTask("mail", nil, asynq.TaskID(id)))
			}
			client := s.redis.MakeRedisClient().(redis.UniversalClient)
			defer func() { assert.NoError(t, client.Close()) }()
			key := "asynq:{" + s.name + "}:t:a"
			message, err := client.HGet(t.Context(), key, "msg").Bytes()
			require.NoError(t, err)
			changed := row.change(s, message)
			require.NotEqual(t, message, changed)
			require.NoError(t, client.HSet(t.Context(), key, "msg", changed).Err())

			result, err := retryasynq.Redrive(t.Context(), s.redis, s.name, retryjob.RedriveOptions{Window: time.Hour})
			assert.ErrorContains(t, err, "retryasynq: redrive: 1 of 3 dead letters cannot go back to the queue, and stay dead letters: "+row.want)
			assert.Equal(t, retryjob.RedriveResult{Found: 3, Moved: 2, Skipped: 1}, result)
			queues, err := s.inspector.Queues()
			require.NoError(t, err)
			assert.NotContains(t, queues, strings.Replace(s.name, "retry", "other", 1))
		})
	}
}

// await waits until a task is in a state.
func (s *service) await(id string, state asynq.TaskState) (task *asynq.TaskInfo) {
	s.Helper()
	p := retry.Policy{MaxElapsed: 20 * time.Second, Backoff: retry.Fixed(20 * time.Millisecond)}
	require.NoError(s, retry.Do(s.Context(), p, func(context.Context) (err error) {
		if task, err = s.inspector.GetTaskInfo(s.name, id); err == nil && task.State != state {
			err = errors.New(task.State.String())
		}
		return err
	}))
	return task
}

// lockOf returns the key of the lock for unique tasks of type mail without a payload. The result
// holder is the ID of the task that has the lock.
func (s *service) lockOf(client redis.UniversalClient) (key, holder string) {
	s.Helper()
	key = "asynq:{" + s.name + "}:unique:mail:"
	holder, err := client.Get(s.Context(), key).Result()
	if !errors.Is(err, redis.Nil) {
		require.NoError(s, err)
	}
	return key, holder
}

// A breaking client fails at each command with a key that ends in at.
type breaking struct {
	asynq.RedisClientOpt
	at string
}

func (b breaking) MakeRedisClient() any {
	client := b.RedisClientOpt.MakeRedisClient().(redis.UniversalClient)
	client.AddHook(b)
	return client
}

var errBroken = errors.New("the redriver is killed here")

func (b breaking) DialHook(next redis.DialHook) redis.DialHook { return next }
func (b breaking) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (b breaking) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		for _, arg := range cmd.Args() {
			if key, is := arg.(string); is && strings.HasSuffix(key, b.at) {
				return errBroken
			}
		}
		return next(ctx, cmd)
	}
}

// A redriven task has the lock of the archived task for the remaining time, so no other task
// with the same lock runs at the same time.
func TestRedriveKeepsTheLockOfAUniqueTask(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		before func(s *service, client redis.UniversalClient, lock string)
		moved  bool
		holder string
	}{
		"the task has the lock": {func(*service, redis.UniversalClient, string) {}, true, "a~1"},
		"a redriver was killed before": {func(s *service, _ redis.UniversalClient, lock string) {
			_, err := retryasynq.Redrive(s.Context(), breaking{s.redis, lock}, s.name, retryjob.RedriveOptions{Window: time.Hour})
			assert.ErrorContains(s, err, errBroken.Error())
		}, true, "a~1"},
		"a redriver was killed after": {func(s *service, _ redis.UniversalClient, _ string) {
			_, err := retryasynq.Redrive(s.Context(), breaking{s.redis, ":groups"}, s.name, retryjob.RedriveOptions{Window: time.Hour}) // only the deletion of a task uses this key
			assert.ErrorContains(s, err, errBroken.Error())
			_, err = s.inspector.GetTaskInfo(s.name, "a~1")
			assert.NoError(s, err)
		}, true, "a~1"},
		"the lock has expired": {func(s *service, client redis.UniversalClient, lock string) {
			assert.NoError(s, client.Del(s.Context(), lock).Err())
		}, true, ""},
		"another task has the lock": {func(s *service, client redis.UniversalClient, lock string) {
			assert.NoError(s, client.Del(s.Context(), lock).Err())
			_, err := s.client.Enqueue(retryasynq.NewTask("mail", nil, asynq.TaskID("b"), asynq.Unique(time.Hour), asynq.ProcessIn(time.Hour)), asynq.Queue(s.name))
			assert.NoError(s, err)
		}, false, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, func(context.Context, *asynq.Task) error { return retry.Permanent(errBoom) })
			client := s.redis.MakeRedisClient().(redis.UniversalClient)
			defer func() { assert.NoError(t, client.Close()) }()
			s.end(retryasynq.NewTask("mail", nil, asynq.TaskID("a"), asynq.Unique(time.Hour)))
			lock, holder := s.lockOf(client)
			require.Equal(t, "a", holder)
			row.before(s, client, lock)

			result, err := retryasynq.Redrive(t.Context(), s.redis, s.name, retryjob.RedriveOptions{Window: time.Hour})
			require.NoError(t, err)
			assert.Equal(t, map[bool]retryjob.RedriveResult{true: {Found: 1, Moved: 1}, false: {Found: 1, Skipped: 1}}[row.moved], result)
			_, holder = s.lockOf(client)
			assert.Equal(t, row.holder, holder)
			if holder != "a~1" {
				return
			}
			_, err = s.client.Enqueue(retryasynq.NewTask("mail", nil, asynq.Unique(time.Hour)), asynq.Queue(s.name))
			assert.ErrorIs(t, err, asynq.ErrDuplicateTask)
			require.NoError(t, s.inspector.DeleteTask(s.name, "a~1"))
			_, holder = s.lockOf(client)
			assert.Empty(t, holder, "the lock is the task's own")
		})
	}
}

// A deaf client gets no answers while its server hangs.
type deaf struct {
	asynq.RedisClientOpt
	hangs *atomic.Bool
}

type deafConn struct {
	net.Conn
	hangs *atomic.Bool
}

func (d deaf) MakeRedisClient() any {
	return redis.NewClient(&redis.Options{Addr: d.Addr, Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return deafConn{conn, d.hangs}, err
	}})
}

func (d deafConn) Read(b []byte) (int, error) {
	for {
		n, err := d.Conn.Read(b)
		if err != nil || !d.hangs.Load() {
			return n, err
		}
	}
}

// If Redis hangs, Redrive still ends with its context, and a later Redrive moves the rest.
func TestRedriveOfARedisThatHangs(t *testing.T) {
	t.Parallel()
	s := newService(t, func(context.Context, *asynq.Task) error { return retry.Permanent(errBoom) })
	for range 3 {
		s.end(retryasynq.NewTask("mail", nil))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	over, hangs, seen := errors.New("the time is over"), new(atomic.Bool), 0
	_, err := retryasynq.Redrive(ctx, deaf{s.redis, hangs}, s.name, retryjob.RedriveOptions{Window: time.Hour, Filter: func(retryjob.DeadLetter) bool {
		if seen++; seen == 2 {
			hangs.Store(true)
			time.AfterFunc(50*time.Millisecond, func() { cancel(over) }) // while Redrive waits for an answer
		}
		return true
	}})
	assert.ErrorIs(t, err, over)
	result, err := retryasynq.Redrive(t.Context(), s.redis, s.name, retryjob.RedriveOptions{Window: time.Hour})
	require.NoError(t, err)
	assert.Equal(t, retryjob.RedriveResult{Found: 2, Moved: 2}, result)
}
