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

// kept is how long asynq keeps a redriven task, and its ID, after the task is done.
const kept = time.Hour

// Redrive lets the dead letters of a queue run again. Each task gets all its attempts again,
// and runs at the first full second after its moment in o.Window. Redrive skips
//
//   - tasks that anyone else has archived, even if a worker archived them a second or more
//     before;
//   - tasks whose new ID, or whose lock of asynq.Unique, belongs to another task.
//
// A task cannot go back if it says that it belongs to another queue, or if asynq refuses it.
// Such a task stays. Redrive goes on with the others, and returns an error that names it.
//
// asynq cannot give an archived task a new count. So Redrive enqueues a new task with the same
// type, payload, headers and options, and then deletes the archived task. The ID of the new
// task ends in "~1", and after a second redrive in "~2". If the archived task still has its
// lock of asynq.Unique, the new task gets this lock for the remaining time, counted from its
// moment in the window.
//
// If Redrive is killed or fails, or if two run at once, no task is lost. Call Redrive again for
// the rest. A task that was enqueued before its archived task was deleted is then recognized,
// by its ID and by the end of the archived task in its headers, until an hour after it is done.
// After this hour the task runs twice.
//
// Redrive closes its connections when ctx is done, so a Redis that hangs does not hold it up.
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
		return fmt.Errorf("%T makes no client of Redis", options)
	}
	// The methods of the inspector take no context.
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
	archived, err := archivedIn(r.inspector, queue) // all at once, because moves shift the pages
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
		case task.Queue != queue: // the writer of the task wants it to run elsewhere
			unreadable = retryjob.Stuck(fmt.Errorf("task %.100s: it says that its queue is %.100q",
				task.ID, task.Queue))
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

// stale returns an error if the last error of a task does not say why the task is archived. This
// happens if an operator let the task run again, and archived it before a worker took it. asynq
// stores the second in which a task was archived. If a worker archived the task, this is the
// second in which the last attempt failed.
func (r redriver) stale(ctx context.Context, task *asynq.TaskInfo) (stale, err error) {
	at, err := r.redis.ZScore(ctx, "asynq:{"+task.Queue+"}:archived", task.ID).Result()
	if errors.Is(err, redis.Nil) || err == nil && int64(at) != task.LastFailedAt.Unix() {
		return errors.New("it was archived later than its last attempt failed"), nil
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

// move enqueues an archived task to run at due, and deletes the archived task. It reports
// whether the task was still archived, with the same last error.
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
		} else if r.redis.Ping(ctx).Err() == nil { // asynq refuses the task
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

// copyOf returns a copy of an archived task that runs at this time and has this ID.
func copyOf(task *asynq.TaskInfo, d retryjob.DeadLetter, at time.Time, id string) *asynq.Task {
	headers := map[string]string{}
	maps.Copy(headers, task.Headers)
	headers[sinceHeader] = at.UTC().Format(time.RFC3339Nano)
	headers[copyHeader] = task.ID + " " + d.Ended.Format(time.RFC3339Nano)
	opts := []asynq.Option{
		asynq.TaskID(id), asynq.Queue(task.Queue), asynq.MaxRetry(task.MaxRetry),
		asynq.Timeout(task.Timeout), asynq.ProcessAt(at),
		asynq.Retention(max(kept, task.Retention)),
	}
	if !task.Deadline.IsZero() {
		opts = append(opts, asynq.Deadline(task.Deadline))
	}
	return asynq.NewTaskWithHeaders(task.Type, task.Payload, headers, opts...)
}

// errTaken is the error if another task has the ID or the lock of a copy.
var errTaken = errors.New("another task has its ID or its lock")

// enqueue enqueues the copy of an archived task, unless another redriver has enqueued the copy
// before.
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

// isThere reports whether a copy was enqueued before. It returns errTaken if another task
// has the ID of the copy.
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

// unlocking takes the lock of asynq.Unique from a task. It returns how many milliseconds of the
// lock were left, 0 if the task has no lock, and -1 if another task has the lock. It stores in
// the task when the lock would have expired. If this redriver is killed before the copy has the
// lock, the next redriver reads this time.
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

// unlock frees the lock of a task for its copy, and returns how long the copy may have the
// lock. 0 means that the copy gets no lock.
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
	return max(time.Second, time.Duration(left)*time.Millisecond), nil // asynq accepts no shorter lock
}

// nextID returns the ID of a task after a redrive.
func nextID(id string) string {
	if i := strings.LastIndexByte(id, '~'); i >= 0 {
		if n, err := strconv.Atoi(id[i+1:]); err == nil {
			return id[:i+1] + strconv.Itoa(n+1)
		}
	}
	return id + "~1"
}
