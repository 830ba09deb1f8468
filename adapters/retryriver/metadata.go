package retryriver

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/goretry/retry/retryjob"
)

const metadataKey = "retry"

// The type `metadata` is the value that this package stores in the metadata of a job, under the key
// metadataKey.
type metadata struct {
	// MaxAttempts is the job's own limit on attempts. It is 0 if the job has no limit of its own.
	MaxAttempts int `json:"max_attempts"`

	// Classes contains the number of failed attempts of each class. Its keys are the names of the
	// classes.
	Classes map[string]int `json:"classes,omitempty"`

	// Earlier is the number of errors in the row that are from attempts before the last Redrive.
	Earlier int `json:"earlier,omitempty"`

	// Dead is the dead letter, which says why the job does not run again. It is nil if the job may
	// run.
	Dead *retryjob.DeadLetter `json:"dead,omitempty"`

	// DeadAttempt is the number of the attempt after which the field Dead was set. If the row of the
	// job contains another number, an operator has run the job again.
	DeadAttempt int `json:"dead_attempt,omitempty"`
}

// `read` returns the job and the metadata of a row. Other programs may have written the
// metadata, so `read` corrects impossible counts. If the row is malformed, `read` returns an
// error, and the job becomes a dead letter.
func read(row *rivertype.JobRow) (j retryjob.Job, m metadata, malformed error) {
	switch kept, _, err := metadataOf(row); {
	case row.Attempt < 1:
		malformed = fmt.Errorf("retryriver: job %d: attempt is %d, which is below 1", row.ID, row.Attempt)
	case err != nil:
		malformed = fmt.Errorf("retryriver: metadata of job %d: %w", row.ID, err)
	case kept == nil: // a client without this package has inserted the row
		m.MaxAttempts = ownLimit(row.MaxAttempts)
	default:
		m = *kept
	}
	m.MaxAttempts = max(0, m.MaxAttempts)
	// Do not lower a wrong value of Earlier to len(row.Errors): `began` would then ignore all errors
	// of the row, and MaxElapsed would start again in each attempt.
	if m.Earlier < 0 || m.Earlier > len(row.Errors) {
		m.Earlier = 0
	}
	if m.Classes == nil {
		m.Classes = map[string]int{} // for retryjob, a nil map would mean that the counts are unknown
	}
	j = retryjob.Job{
		Key:         strconv.FormatInt(row.ID, 10),
		Attempt:     max(1, row.Attempt),
		MaxAttempts: m.MaxAttempts,
		Began:       began(row, m.Earlier),
		Classes:     m.Classes,
	}
	return j, m, malformed
}

// The function `began` returns the time at which the first attempt began. It ignores the errors
// from before the last Redrive. They are the first errors of the row, and the parameter `earlier`
// is their number. It also ignores times that are zero or in the future. retryjob.Run would replace
// such a time with the current time in each attempt, so MaxElapsed would never end the job.
func began(row *rivertype.JobRow, earlier int) time.Time {
	now := time.Now()
	for _, failed := range row.Errors[earlier:] {
		if !failed.At.IsZero() && !failed.At.After(now) {
			return failed.At
		}
	}
	if row.AttemptedAt != nil {
		return *row.AttemptedAt
	}
	return time.Time{}
}

// metadataOf returns what this package has stored in the metadata of a job. It returns nil if the
// package has stored nothing. The result `canceled` is true if an operator has canceled the job.
// metadataOf recognizes this by a key that River then sets in the metadata.
func metadataOf(job *rivertype.JobRow) (m *metadata, canceled bool, err error) {
	all, err := fieldsOf(job.Metadata)
	if mine := all[metadataKey]; len(mine) > 0 {
		err = json.Unmarshal(mine, &m)
	}
	return m, all["cancel_attempted_at"] != nil, err
}

// DeadLetterOf returns the dead letter of a job, which says why the job does not run again. It
// returns an error if this package has not ended the job, for example because an operator has
// canceled the job. It also returns an error if an operator has run the dead letter again.
func DeadLetterOf(job *rivertype.JobRow) (retryjob.DeadLetter, error) {
	m, canceled, err := metadataOf(job)
	finalized := job.State == rivertype.JobStateCancelled || job.State == rivertype.JobStateDiscarded
	switch {
	case err != nil:
	case m == nil || m.Dead == nil:
		err = fmt.Errorf("the metadata of the job have no key %q under the key %q", "dead", metadataKey)
	case !finalized || m.DeadAttempt != job.Attempt || canceled:
		err = fmt.Errorf("the job ended in attempt %d, "+
			"but an operator has since canceled it or run it again", m.DeadAttempt)
	default:
		return *m.Dead, nil
	}
	return retryjob.DeadLetter{}, fmt.Errorf(
		"retryriver: job %d is not a dead letter of this package: %w", job.ID, err)
}

// fieldsOf parses the metadata of a job. The metadata are empty or a JSON object.
func fieldsOf(metadata []byte) (all map[string]json.RawMessage, err error) {
	if len(metadata) > 0 {
		err = json.Unmarshal(metadata, &all)
	}
	return all, err
}

// withMetadata returns the metadata of a job with m added.
func withMetadata(fields []byte, m metadata) ([]byte, error) {
	before, err := fieldsOf(fields)
	if err != nil {
		return nil, err
	}
	all := map[string]any{}
	for key, value := range before {
		all[key] = value
	}
	all[metadataKey] = m
	return json.Marshal(all)
}
