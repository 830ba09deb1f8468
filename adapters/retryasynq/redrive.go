package retryasynq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/goretry/retry/internal/jobqueue"
	"github.com/goretry/retry/retryjob"
)

// kept is how long asynq keeps a redriven task that is done, and with it its ID.
const kept = time.Hour

// Redrive lets the dead letters of a queue run again: each gets all its attempts, and runs
// at the first full second after its moment in o.Window. Tasks that anyone else has
// archived are skipped, and so are those whose new ID another task has.
//
// asynq cannot give an archived task a new count, so Redrive enqueues a new task, with
// the same type, payload, headers and options, and then deletes the archived one. The new
// task's ID ends in "~1", the one after a second redrive in "~2". If Redrive is killed or
// fails, or two run at once, no task is lost, and it can be called again: one that was
// enqueued and not deleted is then known by its ID, for an hour after it is done. Later
// than that it runs twice.
func Redrive(ctx context.Context, client *asynq.Client, inspector *asynq.Inspector, queue string, o retryjob.RedriveOptions) (retryjob.RedriveResult, error) {
	walk := jobqueue.Start(o)
	archived, err := archivedIn(inspector, queue) // all at once: pages shift while tasks go
	if err != nil {
		return walk.Result, fmt.Errorf("retryasynq: redrive: %w", err)
	}
	for _, task := range archived {
		err := ctx.Err()
		if err == nil {
			d, unreadable := DeadLetterOf(task)
			err = walk.Look(d, unreadable, len(archived), func(due time.Time) (bool, error) {
				return enqueueAgain(ctx, client, inspector, task, due)
			})
		}
		if err != nil {
			return walk.Result, fmt.Errorf("retryasynq: redrive task %s: %w", task.ID, err)
		}
	}
	return walk.Result, nil
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

// enqueueAgain enqueues an archived task to run at due, and deletes it. It reports whether
// it was still there.
func enqueueAgain(ctx context.Context, client *asynq.Client, inspector *asynq.Inspector, task *asynq.TaskInfo, due time.Time) (bool, error) {
	at := due.Add(time.Second - time.Nanosecond).Truncate(time.Second) // asynq cuts times to seconds
	headers := maps.Clone(task.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	headers[sinceHeader], headers[copyHeader] = at.UTC().Format(time.RFC3339Nano), task.ID
	id := nextID(task.ID)
	opts := []asynq.Option{asynq.TaskID(id), asynq.Queue(task.Queue), asynq.MaxRetry(task.MaxRetry), asynq.Timeout(task.Timeout),
		asynq.ProcessAt(at), asynq.Retention(max(kept, task.Retention))}
	if !task.Deadline.IsZero() {
		opts = append(opts, asynq.Deadline(task.Deadline))
	}
	_, err := client.EnqueueContext(ctx, asynq.NewTaskWithHeaders(task.Type, task.Payload, headers, opts...))
	if errors.Is(err, asynq.ErrTaskIDConflict) { // a redriver was killed, or is faster, or another task has this ID
		var other *asynq.TaskInfo
		if other, err = inspector.GetTaskInfo(task.Queue, id); err == nil && other.Headers[copyHeader] != task.ID {
			return false, nil
		}
	}
	if err != nil {
		return false, err
	}
	err = inspector.DeleteTask(task.Queue, task.ID)
	if errors.Is(err, asynq.ErrTaskNotFound) {
		return false, nil
	}
	return err == nil, err
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
