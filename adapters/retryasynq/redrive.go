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

// kept is how long asynq keeps a redriven task that is done, and with it its ID.
const kept = time.Hour

// Redrive lets the dead letters of a queue run again: each gets all its attempts, and runs
// at the first full second after its moment in o.Window. Tasks that anyone else has
// archived are skipped, also where that was a second or more after a worker had. So are
// those whose new ID another task has, or whose lock of asynq.Unique.
//
// A task that cannot go back, because it says that it belongs to another queue or asynq
// refuses it, stays. Redrive goes on with the others, and returns an error that names it.
//
// asynq cannot give an archived task a new count, so Redrive enqueues a new task, with
// the same type, payload, headers and options, and then deletes the archived one. If that
// still has its lock of asynq.Unique, the new task gets the lock for the rest of its time,
// counted from its moment. The new
// task's ID ends in "~1", the one after a second redrive in "~2". If Redrive is killed or
// fails, or two run at once, no task is lost, and it can be called again: one that was
// enqueued and not deleted is then known by its ID and by the end of the archived task that
// its headers name, for an hour after it is done. Later than that it runs twice.
//
// Redrive closes its connections when ctx is done, so a Redis that hangs does not hold it up.
func Redrive(ctx context.Context, options asynq.RedisConnOpt, queue string, o retryjob.RedriveOptions) (retryjob.RedriveResult, error) {
	return o.Walk("retryasynq", func(walk *retryjob.Walk) error { return redriveAll(ctx, options, queue, walk) })
}

func redriveAll(ctx context.Context, options asynq.RedisConnOpt, queue string, walk *retryjob.Walk) (err error) {
	connection, is := options.MakeRedisClient().(redis.UniversalClient)
	if !is {
		return fmt.Errorf("%T makes no client of Redis", options)
	}
	// The inspector takes no context.
	closeSoon := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer func() {
		if closeSoon() {
			err = errors.Join(err, connection.Close())
		} else if err != nil {
			err = context.Cause(ctx)
		}
	}()
	r := redriver{connection, asynq.NewClientFromRedisClient(connection), asynq.NewInspectorFromRedisClient(connection)}
	archived, err := archivedIn(r.inspector, queue) // all at once: pages shift while tasks go
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
		case task.Queue != queue: // its writer wants it to run elsewhere
			unreadable = retryjob.Stuck(fmt.Errorf("task %.100s: it says that its queue is %.100q", task.ID, task.Queue))
		default:
			unreadable, err = r.stale(ctx, task)
		}
		if err == nil {
			err = walk.Look(d, unreadable, len(archived), func(due time.Time) (bool, error) { return r.move(ctx, task, d, due) })
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

// stale returns why the last error of a task does not say why it is archived: an operator
// let it run again, and archived it before a worker took it. asynq keeps when it archived a
// task, in whole seconds, and that is when the last attempt failed only if the worker did it.
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

// move enqueues an archived task to run at due, and deletes it. It reports whether it was
// still there, with the same end.
func (r redriver) move(ctx context.Context, task *asynq.TaskInfo, d retryjob.DeadLetter, due time.Time) (bool, error) {
	now, err := r.inspector.GetTaskInfo(task.Queue, task.ID)
	if errors.Is(err, asynq.ErrTaskNotFound) || err == nil && (now.State != asynq.TaskStateArchived || now.LastErr != task.LastErr) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if stale, err := r.stale(ctx, task); stale != nil || err != nil {
		return false, err
	}
	at := fullSecond(due)
	headers := map[string]string{}
	maps.Copy(headers, task.Headers)
	headers[sinceHeader], headers[copyHeader] = at.UTC().Format(time.RFC3339Nano), task.ID+" "+d.Ended.Format(time.RFC3339Nano)
	id := nextID(task.ID)
	opts := []asynq.Option{asynq.TaskID(id), asynq.Queue(task.Queue), asynq.MaxRetry(task.MaxRetry), asynq.Timeout(task.Timeout),
		asynq.ProcessAt(at), asynq.Retention(max(kept, task.Retention))}
	if !task.Deadline.IsZero() {
		opts = append(opts, asynq.Deadline(task.Deadline))
	}
	if err := r.enqueue(ctx, task, asynq.NewTaskWithHeaders(task.Type, task.Payload, headers, opts...), id); err != nil {
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

// errTaken says that another task has the ID of a copy, or its lock.
var errTaken = errors.New("another task has its place")

// enqueue enqueues the copy of an archived task, unless a redriver that was killed, or is
// faster, has done so.
func (r redriver) enqueue(ctx context.Context, task *asynq.TaskInfo, anew *asynq.Task, id string) error {
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
	case other.Headers[copyHeader] != anew.Headers()[copyHeader] || other.Type != anew.Type() || !bytes.Equal(other.Payload, anew.Payload()):
		return false, errTaken
	}
	return true, nil
}

// unlocking takes the lock of asynq.Unique from a task, and returns how many milliseconds
// were left, 0 if it has none, and -1 if another task has the lock. It notes in the task when
// the lock would have expired: a redriver that is killed before the copy has the lock is
// followed by one that must know.
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

// unlock frees the lock of a task for its copy, and returns how long that may have it, 0 for
// not at all.
func (r redriver) unlock(ctx context.Context, task *asynq.TaskInfo) (time.Duration, error) {
	keys := "asynq:{" + task.Queue + "}:"
	left, err := unlocking.Run(ctx, r.redis, []string{keys + "t:" + task.ID}, task.ID, keys+"unique:", time.Now().UnixMilli()).Int64()
	if err == nil && left < 0 {
		err = errTaken
	}
	if err != nil || left == 0 {
		return 0, err
	}
	return max(time.Second, time.Duration(left)*time.Millisecond), nil // asynq takes no shorter lock
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
