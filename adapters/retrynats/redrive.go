package retrynats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/goretry/retry/internal/jobqueue"
	"github.com/goretry/retry/retryjob"
)

// Redrive publishes dead letters again, to the subjects that they come from: each gets
// all its attempts, and is handled at its moment in o.Window. Then it deletes them. What
// it cannot read, it skips.
//
// If Redrive is killed or fails, no message is lost, and it can be called again. A dead
// letter that was published and not deleted is then published with the same
// Nats-Msg-Id, which its stream takes only once in the time of its setting Duplicates, 2
// minutes by default. Later than that it is handled twice. If another message has that
// Nats-Msg-Id, the dead letter is skipped.
func (r *Retries) Redrive(ctx context.Context, js jetstream.JetStream, o retryjob.RedriveOptions) (retryjob.RedriveResult, error) {
	return jobqueue.Redrive("retrynats", o, func(walk *jobqueue.Walk) error { return r.redrive(ctx, js, walk) })
}

func (r *Retries) redrive(ctx context.Context, js jetstream.JetStream, walk *jobqueue.Walk) error {
	name, err := js.StreamNameBySubject(ctx, r.dead)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(r.dead))
	if err != nil {
		return err
	}
	for next := info.State.FirstSeq; next <= info.State.LastSeq; {
		letter, err := stream.GetMsg(ctx, next, jetstream.WithGetMsgSubject(r.dead))
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && letter.Sequence > info.State.LastSeq {
			return nil // the rest is of other subjects, or came meanwhile
		}
		if err != nil {
			return err
		}
		next = letter.Sequence + 1
		d, unreadable := DeadLetterOf(letter.Header)
		if letter.Header.Get(SubjectHeader) == "" {
			unreadable = fmt.Errorf("there is no header %s", SubjectHeader)
		}
		if err := walk.Look(d, unreadable, int(info.State.Subjects[r.dead]), func(due time.Time) (bool, error) {
			return publishAgain(ctx, js, stream, letter, due)
		}); err != nil {
			return fmt.Errorf("dead letter %d: %w", letter.Sequence, err)
		}
	}
	return nil
}

// publishAgain publishes the message of a dead letter to run at due, and deletes the
// dead letter. It reports whether that was still there.
func publishAgain(ctx context.Context, js jetstream.JetStream, stream jetstream.Stream, letter *jetstream.RawStreamMsg, due time.Time) (bool, error) {
	msg := nats.NewMsg(letter.Header.Get(SubjectHeader))
	msg.Data = letter.Data
	copyHeaders(msg.Header, letter.Header)
	msg.Header.Set(dueHeader, due.UTC().Format(time.RFC3339Nano))
	ack, err := js.PublishMsg(ctx, msg, jetstream.WithMsgID(fmt.Sprintf("%s/%d/%d", letter.Subject, letter.Sequence, letter.Time.UnixNano())))
	if err != nil {
		return false, err
	}
	if ack.Duplicate {
		same, err := isStored(ctx, js, ack, msg)
		if !same && !errors.Is(err, jetstream.ErrMsgNotFound) { // not found: it was published before, and is handled already
			return false, err
		}
	}
	err = stream.DeleteMsg(ctx, letter.Sequence)
	if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) { // which does not say why
		if _, gone := stream.GetMsg(ctx, letter.Sequence); errors.Is(gone, jetstream.ErrMsgNotFound) {
			return false, nil
		}
	}
	return err == nil, err
}
