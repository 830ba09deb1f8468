package retryasynq_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryasynq"
	"github.com/goretry/retry/retryjob"
)

// A redriven task keeps its options, and its ID says how often it came back. What a killed
// redriver enqueued and did not delete is not enqueued again, even if it is done.
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
		result, err := retryasynq.Redrive(t.Context(), s.client, s.inspector, archived.Queue, retryjob.RedriveOptions{})
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
	done := func(headers map[string]string) {
		t.Helper()
		_, err := s.client.Enqueue(asynq.NewTaskWithHeaders("mail", nil, headers, asynq.TaskID("a~b~3"), asynq.Queue(archived.Queue), asynq.Retention(time.Hour)))
		require.NoError(t, err)
		s.await("a~b~3", asynq.TaskStateCompleted)
	}
	done(nil) // another task, with the ID of the next copy
	redrive(retryjob.RedriveResult{Found: 1, Skipped: 1})
	require.NoError(t, s.inspector.DeleteTask(archived.Queue, "a~b~3"))
	done(map[string]string{"retry-redrive-of": "a~b~2"})
	redrive(one)
	redrive(retryjob.RedriveResult{})
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
