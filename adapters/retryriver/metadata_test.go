package retryriver_test

import (
	"context"
	"testing"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryriver"
	"github.com/goretry/retry/retryjob"
)

// A row of a newer version may have a reason that this version does not know. If somebody else
// has ended a job, or has ended it again later, its row is not a dead letter.
func TestDeadLetterOf(t *testing.T) {
	const discarded, canceled = rivertype.JobStateDiscarded, rivertype.JobStateCancelled
	for _, row := range []struct {
		state    rivertype.JobState
		attempt  int
		metadata string
		want     string
	}{
		{discarded, 2, `{"retry": {"moon": "full", "dead_attempt": 2, "dead": {"reason": "too_tired", "attempts": 4}}}`, ""},
		{canceled, 2, `{"retry": {"dead_attempt": 2, "dead": {"reason": "too_tired", "attempts": 4}}}`, ""},
		{discarded, 2, `{"retry": {"max_attempts": 2}}`, `retryriver: job 7 is not a dead letter of this package: the metadata of the job have no key "dead" under the key "retry"`},
		{discarded, 2, ``, `retryriver: job 7 is not a dead letter of this package: the metadata of the job have no key "dead" under the key "retry"`},
		{discarded, 2, `{}`, `retryriver: job 7 is not a dead letter of this package: the metadata of the job have no key "dead" under the key "retry"`},
		{discarded, 2, `{"Retry": 5}`, `retryriver: job 7 is not a dead letter of this package: the metadata of the job have no key "dead" under the key "retry"`},
		{discarded, 2, `{"retry": {"dead": {"attempts": 4}}}`, `the key "reason" is missing`},
		{discarded, 2, `{"retry": {"dead": {"reason": "tired"}}`, "retryriver: job 7 is not a dead letter of this package: unexpected end of JSON input"},
		{discarded, 3, `{"retry": {"dead_attempt": 2, "dead": {"reason": "too_tired"}}}`, "the job ended in attempt 2, but an operator has since canceled it or run it again"},
		{canceled, 2, `{"cancel_attempted_at": "x", "retry": {"dead_attempt": 2, "dead": {"reason": "too_tired"}}}`, "an operator has since canceled it or run it again"},
		{rivertype.JobStateAvailable, 2, `{"retry": {"dead_attempt": 2, "dead": {"reason": "too_tired"}}}`, "an operator has since canceled it or run it again"},
	} {
		d, err := retryriver.DeadLetterOf(&rivertype.JobRow{ID: 7, State: row.state, Attempt: row.attempt, Metadata: []byte(row.metadata)})
		if row.want == "" {
			require.NoError(t, err)
			assert.Equal(t, retryjob.DeadLetter{Reason: "too_tired", Attempts: 4}, d)
		} else {
			assert.ErrorContains(t, err, row.want)
		}
	}
}

// A dead letter is valid only for the end that it describes. It is not valid any more if an
// operator has run the job again, and the job was canceled or succeeded. TestRedrive cancels
// jobs before they run.
func TestADeadLetterOfAnEarlierEnd(t *testing.T) {
	t.Parallel()
	began, outcome := make(chan struct{}, 1), make(chan error, 1)
	s := newService(t, work(func(ctx context.Context, _ *river.Job[args]) error {
		began <- struct{}{}
		select {
		case err := <-outcome:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}), work(fails[other]))
	bury := func() int64 {
		inserted := s.insert(args{}, nil)
		outcome <- retry.Permanent(errBoom)
		<-began
		_, err := retryriver.DeadLetterOf(s.end(inserted.ID))
		require.NoError(t, err)
		return inserted.ID
	}
	rerun := func(id int64) {
		_, err := s.client.JobRetry(t.Context(), id)
		require.NoError(t, err)
	}
	for name, then := range map[string]func(id int64){
		"the job is canceled while it runs": func(id int64) {
			rerun(id)
			<-began
			_, err := s.client.JobCancel(t.Context(), id)
			require.NoError(t, err)
		},
		"the job succeeds": func(id int64) { rerun(id); <-began; outcome <- nil },
	} {
		t.Run(name, func(t *testing.T) {
			id := bury()
			then(id)
			ended := s.end(id)
			assert.Regexp(t, `"retry": {"max_attempts": \d+}`, string(ended.Metadata), "the letter is gone")
			_, err := retryriver.DeadLetterOf(ended)
			assert.Error(t, err)
			result, err := retryriver.Redrive(t.Context(), s.client, retryjob.RedriveOptions{})
			require.NoError(t, err)
			assert.Zero(t, result.Moved)
		})
	}
}
