package jobtest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// A journal records the attempts of the jobs in the file "runs", and the events of the jobs in
// the file "log". All processes of a test write to these files. Each line is appended by a
// single write, so the lines of a killed process are not lost.
type journal struct {
	directory string
	runs, log *os.File
	events    *retrylog.Writer
}

func openJournal(directory string) (*journal, error) {
	runs, err := openToAppend(filepath.Join(directory, "runs"))
	if err != nil {
		return nil, err
	}
	log, err := openToAppend(filepath.Join(directory, "log"))
	if err != nil {
		return nil, errors.Join(err, runs.Close())
	}
	return &journal{directory, runs, log, retrylog.NewWriter(log)}, nil
}

func openToAppend(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}

func (j *journal) close() error {
	return errors.Join(j.events.Err(), j.runs.Close(), j.log.Close())
}

// A run is one execution of the function of a job, for one attempt.
type run struct {
	key          string
	attempt      int       // the number that the adapter has given this attempt
	process      int       // the ID of the process in which the job ran
	began, ended time.Time // ended is zero if the process was killed during the run
	ok           bool      // whether the attempt succeeded
}

// These are the formats of the lines in the file "runs".
const (
	beginLine = "begin %s %d %d %d\n" // key, attempt, time in Unix nanoseconds, process ID
	endLine   = "end %s %d %d %t\n"   // key, attempt, time in Unix nanoseconds, success of the attempt
)

// `around` calls `do`, and records this call as an attempt of the job.
func (j *journal) around(key string, attempt int, do func() error) error {
	now := time.Now().UnixNano()
	if _, err := fmt.Fprintf(j.runs, beginLine, key, attempt, now, os.Getpid()); err != nil {
		return err
	}
	err := do()
	now = time.Now().UnixNano()
	if _, failed := fmt.Fprintf(j.runs, endLine, key, attempt, now, err == nil); failed != nil {
		return failed
	}
	return err
}

// readRuns returns all runs of each job, by the key of the job. The runs of a job are in the
// order in which they began.
func (j *journal) readRuns() (map[string][]run, error) {
	text, err := os.ReadFile(filepath.Join(j.directory, "runs"))
	if err != nil {
		return nil, err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // another process may be writing the last line
	runs := map[string][]run{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var r run
		var at int64
		line := lines.Text() + "\n"
		if _, err := fmt.Sscanf(line, beginLine, &r.key, &r.attempt, &at, &r.process); err == nil {
			r.began = time.Unix(0, at)
			runs[r.key] = append(runs[r.key], r)
			continue
		}
		if _, err := fmt.Sscanf(line, endLine, &r.key, &r.attempt, &at, &r.ok); err != nil {
			return nil, fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		open := lastOpen(runs[r.key], r.attempt)
		if open == nil {
			return nil, fmt.Errorf("line %q: an attempt has ended, but it has not begun", lines.Text())
		}
		open.ended, open.ok = time.Unix(0, at), r.ok
	}
	return runs, nil
}

// cutOff returns the number of processes that were killed during an attempt. Call cutOff only when
// no worker runs.
func (j *journal) cutOff() (int, error) {
	byKey, err := j.readRuns()
	processes := map[int]bool{}
	for _, runs := range byKey {
		for _, r := range runs {
			if r.ended.IsZero() {
				processes[r.process] = true
			}
		}
	}
	return len(processes), err
}

// lastOpen returns the last run of this attempt that has not ended, or nil if there is no such run.
func lastOpen(runs []run, attempt int) *run {
	for i := len(runs) - 1; i >= 0; i-- {
		if runs[i].attempt == attempt && runs[i].ended.IsZero() {
			return &runs[i]
		}
	}
	return nil
}

// readLog returns all events of the log. If the process that wrote the log was killed, the last
// line may be incomplete. readLog ignores an incomplete last line.
func (j *journal) readLog() ([]retrylog.Record, error) {
	file, err := os.Open(filepath.Join(j.directory, "log"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	log, err := retrylog.Read(file)
	if errors.Is(err, retrylog.ErrCutOff) {
		err = nil
	}
	return log, err
}

// The function `stopped` counts the jobs that have ended according to the log. It reports whether
// their number equals the parameter `jobs`. A job has ended if one of its attempts succeeded. A job
// has also ended if its last event is a CallFinished whose reason is not ReasonCanceled. Events
// after a success are ignored: if the server restarts before it learns of the success, the server
// delivers the job once more.
func stopped(log []retrylog.Record, jobs int) bool {
	ended, done := map[string]bool{}, map[string]bool{}
	for _, r := range log {
		stop := r.Event.Kind == retry.CallFinished
		done[r.Key] = done[r.Key] || stop && r.Event.Reason == retry.ReasonSuccess
		ended[r.Key] = done[r.Key] || stop && r.Event.Reason != retry.ReasonCanceled
	}
	n := 0
	for _, e := range ended {
		if e {
			n++
		}
	}
	return n == jobs
}
