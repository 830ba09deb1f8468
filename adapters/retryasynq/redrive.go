package retryasynq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/goretry/retry/retryjob"
)

// retention is the time for which asynq keeps a task that Redrive has moved back, and the ID of
// this task, after the task is done.
const retention = time.Hour

// Redrive runs the dead letters of a queue again. Each task gets all its attempts again, and runs
// at the time within o.Window that [retryjob.Spread] computes from the ID of the task, rounded up
// to a whole second. Redrive skips these tasks:
//
//   - tasks that an operator has archived. If an operator archives a task within the same second
//     in which its last attempt fails, Redrive does not notice this, and moves the task;
//   - tasks whose new ID is the ID of another task;
//   - tasks with the option asynq.Unique, if another task holds their lock.
//
// A task cannot go back if its data names another queue, or if asynq refuses the task. Redrive
// leaves such a task and goes on with the others. The error of Redrive then names this task.
//
// asynq cannot reset the count of an archived task. So Redrive enqueues a new task with the
// same type, payload, headers and options, and then deletes the archived task. The ID of the
// new task ends in "~1", and after a second redrive in "~2". If the archived task still has its
// lock of asynq.Unique, the new task gets the lock for the remaining time. The remaining time
// starts when the new task is due.
//
// If Redrive fails, or if its process is killed, no task is lost. Call Redrive again for the rest.
// The first call may have enqueued a new task without deleting the archived task. The second call
// recognizes the new task by its ID and its headers, and does not enqueue it again. This works
// until an hour after the new task is done. If the second call comes after this hour, the task runs
// twice. Concurrent calls of Redrive lose no task either.
//
// When ctx is done, Redrive closes its connections, so it returns even if Redis does not
// answer.
func Redrive(
	ctx context.Context, options asynq.RedisConnOpt, queue string, o retryjob.RedriveOptions,
) (retryjob.RedriveResult, error) {
	return o.Walk("retryasynq", func(walk *retryjob.Walk) error {
		return redriveAll(ctx, options, queue, walk)
	})
}

func redriveAll(
	ctx context.Context, options asynq.RedisConnOpt, queue string, walk *retryjob.Walk,
) (err error) {
	connection, is := options.MakeRedisClient().(redis.UniversalClient)
	if !is {
		return fmt.Errorf("%T.MakeRedisClient returns no redis.UniversalClient: "+
			"pass an asynq.RedisClientOpt", options)
	}
	// The methods of the inspector take no context. Closing the connection ends their calls.
	closeSoon := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer func() {
		if closeSoon() {
			err = errors.Join(err, connection.Close())
		} else if err != nil {
			err = context.Cause(ctx)
		}
	}()
	r := redriver{
		redis:     connection,
		client:    asynq.NewClientFromRedisClient(connection),
		inspector: asynq.NewInspectorFromRedisClient(connection),
	}
	// List all tasks before the first move, because each move shifts the pages.
	archived, err := archivedIn(r.inspector, queue)
	for _, task := range archived {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		d, unreadable := DeadLetterOf(task)
		switch {
		case unreadable != nil:
		case task.Queue != queue: // Redrive would move the task to another queue
			unreadable = retryjob.Stuck(fmt.Errorf(
				"task %.100s is in queue %.100q, but its data says %.100q", task.ID, queue, task.Queue))
		default:
			unreadable, err = r.stale(ctx, task)
		}
		if err == nil {
			err = walk.Look(d, unreadable, len(archived), func(due time.Time) (bool, error) {
				return r.move(ctx, task, d, due)
			})
		}
		if err != nil {
			err = fmt.Errorf("task %s: %w", task.ID, err)
		}
	}
	return err
}

// A redriver moves the dead letters of a queue.
type redriver struct {
	redis     redis.UniversalClient
	client    *asynq.Client
	inspector *asynq.Inspector
}

// The method `stale` returns an error if the last error of a task is not the reason why the task
// was archived, or if the task is no longer archived. For example, an operator ran a dead letter
// again, and then archived the task before a worker took it. asynq stores the second in which a
// task was archived. If a worker has archived the task, the last attempt failed in this second.
func (r redriver) stale(ctx context.Context, task *asynq.TaskInfo) (stale, err error) {
	at, err := r.redis.ZScore(ctx, "asynq:{"+task.Queue+"}:archived", task.ID).Result()
	if errors.Is(err, redis.Nil) || err == nil && int64(at) != task.LastFailedAt.Unix() {
		return errors.New("the task is not archived because of its last error"), nil
	}
	return nil, err
}

func archivedIn(inspector *asynq.Inspector, queue string) (all []*asynq.TaskInfo, err error) {
	const size = 1000
	for page := 1; ; page++ {
		tasks, err := inspector.ListArchivedTasks(queue, asynq.PageSize(size), asynq.Page(page))
		all = append(all, tasks...)
		if err != nil || len(tasks) < size {
			return all, err
		}
	}
}

// The method `move` enqueues a copy of an archived task, and deletes the archived task. The copy
// runs at the time `due`. The method returns false if the task is no longer archived, if the last
// error of the task has changed, or if another task has the ID or the lock that the copy needs.
func (r redriver) move(
	ctx context.Context, task *asynq.TaskInfo, d retryjob.DeadLetter, due time.Time,
) (bool, error) {
	now, err := r.inspector.GetTaskInfo(task.Queue, task.ID)
	switch {
	case errors.Is(err, asynq.ErrTaskNotFound):
		return false, nil
	case err != nil:
		return false, err
	case now.State != asynq.TaskStateArchived || now.LastErr != task.LastErr:
		return false, nil
	}
	if stale, err := r.stale(ctx, task); stale != nil || err != nil {
		return false, err
	}
	id := nextID(task.ID)
	if err := r.enqueue(ctx, task, copyOf(task, d, fullSecond(due), id), id); err != nil {
		if errors.Is(err, errTaken) {
			err = nil
		} else if r.redis.Ping(ctx).Err() == nil {
			// Redis answers a ping, so the error means that asynq refuses the task.
			err = retryjob.Stuck(fmt.Errorf("task %.100s: %w", task.ID, err))
		}
		return false, err
	}
	err = r.inspector.DeleteTask(task.Queue, task.ID)
	if errors.Is(err, asynq.ErrTaskNotFound) {
		return false, nil
	}
	return err == nil, err
}

// copyOf returns a copy of an archived task. The copy runs at the given time and has the given
// ID.
func copyOf(task *asynq.TaskInfo, d retryjob.DeadLetter, at time.Time, id string) *asynq.Task {
	headers := map[string]string{}
	maps.Copy(headers, task.Headers)
	headers[sinceHeader] = at.UTC().Format(time.RFC3339Nano)
	headers[copyHeader] = task.ID + " " + d.Ended.Format(time.RFC3339Nano)
	opts := []asynq.Option{
		asynq.TaskID(id), asynq.Queue(task.Queue), asynq.MaxRetry(task.MaxRetry),
		asynq.Timeout(task.Timeout), asynq.ProcessAt(at),
		asynq.Retention(max(retention, task.Retention)),
	}
	if !task.Deadline.IsZero() {
		opts = append(opts, asynq.Deadline(task.Deadline))
	}
	return asynq.NewTaskWithHeaders(task.Type, task.Payload, headers, opts...)
}

// errTaken says that a copy cannot be enqueued, because another task has the ID or the lock that
// the copy needs.
var errTaken = errors.New("another task has the ID or the lock that the copy needs")

// The method `enqueue` enqueues the copy of an archived task, unless another call of Redrive has
// enqueued the copy before.
func (r redriver) enqueue(
	ctx context.Context, task *asynq.TaskInfo, anew *asynq.Task, id string,
) error {
	if is, err := r.isThere(task.Queue, anew, id); is || err != nil {
		return err
	}
	left, err := r.unlock(ctx, task)
	if err != nil {
		return err
	}
	var opts []asynq.Option
	if left > 0 {
		opts = append(opts, asynq.Unique(left))
	}
	_, err = r.client.EnqueueContext(ctx, anew, opts...)
	if errors.Is(err, asynq.ErrTaskIDConflict) || errors.Is(err, asynq.ErrDuplicateTask) {
		is, failed := r.isThere(task.Queue, anew, id)
		switch {
		case failed != nil:
			err = failed
		case is:
			err = nil
		default:
			err = errTaken
		}
	}
	return err
}

// isThere reports whether the copy of a task was enqueued before. It returns errTaken if a
// different task has the ID of the copy.
func (r redriver) isThere(queue string, anew *asynq.Task, id string) (bool, error) {
	other, err := r.inspector.GetTaskInfo(queue, id)
	switch {
	case errors.Is(err, asynq.ErrTaskNotFound):
		return false, nil
	case err != nil:
		return false, err
	case other.Headers[copyHeader] != anew.Headers()[copyHeader],
		other.Type != anew.Type(),
		!bytes.Equal(other.Payload, anew.Payload()):
		return false, errTaken
	}
	return true, nil
}

// The script `unlocking` releases a task's lock of asynq.Unique. It returns the remaining time of
// the lock in milliseconds. If the task has no lock, it returns 0. If another task has the lock, it
// returns -1. The script also stores in the task when the lock would have expired. Redrive then
// gives the lock to the copy of the task. If the process is killed before that, the next call of
// Redrive reads the stored time.
var unlocking = redis.NewScript(`
local lock = redis.call("HGET", KEYS[1], "unique_key")
if not lock or string.sub(lock, 1, #ARGV[2]) ~= ARGV[2] then return 0 end
local holder = redis.call("GET", lock)
if holder == ARGV[1] then
	local left = math.max(1, redis.call("PTTL", lock))
	redis.call("HSET", KEYS[1], "retry_unique_until", ARGV[3] + left)
	redis.call("DEL", lock)
	return left
end
if holder then return -1 end
local noted = redis.call("HGET", KEYS[1], "retry_unique_until")
return math.max(0, (noted or 0) - ARGV[3])
`)

// The method `unlock` releases the lock of a task, so that the copy of the task can take the lock.
// It returns how long the copy may have the lock. If it returns 0, the copy needs no lock.
func (r redriver) unlock(ctx context.Context, task *asynq.TaskInfo) (time.Duration, error) {
	prefix := "asynq:{" + task.Queue + "}:"
	left, err := unlocking.Run(ctx, r.redis, []string{prefix + "t:" + task.ID},
		task.ID, prefix+"unique:", time.Now().UnixMilli()).Int64()
	if err == nil && left < 0 {
		err = errTaken
	}
	if err != nil || left == 0 {
		return 0, err
	}
	return max(time.Second, time.Duration(left)*time.Millisecond), nil // asynq.Unique needs 1s or more
}

// nextID returns the ID that a task gets when it is moved back.
func nextID(id string) string {
	if i := strings.LastIndexByte(id, '~'); i >= 0 {
		if n, err := strconv.Atoi(id[i+1:]); err == nil {
			return id[:i+1] + strconv.Itoa(n+1)
		}
	}
	return id + "~1"
}
