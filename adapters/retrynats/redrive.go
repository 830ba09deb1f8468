package retrynats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/goretry/retry/retryjob"
)

// Redrive publishes the messages of dead letters again, so that the consumer gets these messages
// again. It publishes each message to its old subject, and then deletes the dead letter. Each
// message gets all its attempts again, and is handled at the time within o.Window that
// [retryjob.Spread] computes from the key of the dead letter. Redrive skips dead letters that it
// cannot parse.
//
// Anyone who may publish to the subject for dead letters can write a dead letter. So Redrive
// publishes a message only to a subject that the filter of the consumer allows. If the consumer has
// no filter, the subject must belong to the consumer's stream. Redrive never publishes to an inbox,
// or to a subject that begins with "$". If a dead letter cannot go back, Redrive leaves this dead
// letter and goes on with the others. The error of Redrive then names this dead letter.
//
// Redrive returns an error if the stream of the dead letters has the setting DenyDelete.
//
// If Redrive fails, or if its process is killed, no message is lost. Call Redrive again for the
// rest. The first call may have published the message of a dead letter without deleting the
// dead letter. The second call then publishes this message again, with the same Nats-Msg-Id.
// The stream drops the second message if it arrives within the time of the stream's setting
// Duplicates, which is 2 minutes by default. If it arrives later, the message is handled twice.
// If a different message has this Nats-Msg-Id, Redrive skips the dead letter.
func (r *Retries) Redrive(
	ctx context.Context, js jetstream.JetStream, consumer jetstream.Consumer,
	o retryjob.RedriveOptions,
) (retryjob.RedriveResult, error) {
	return o.Walk("retrynats", func(walk *retryjob.Walk) error {
		subjects, err := subjectsOf(ctx, js, consumer)
		if err != nil {
			return err
		}
		return r.redrive(ctx, js, subjects, walk)
	})
}

func (r *Retries) redrive(
	ctx context.Context, js jetstream.JetStream, subjects []string, walk *retryjob.Walk,
) error {
	stream, err := r.deadStream(ctx, js)
	if err != nil {
		return err
	}
	if config := stream.CachedInfo().Config; config.DenyDelete {
		return fmt.Errorf("dead letters go to %q, in the stream %s: "+
			"DenyDelete is set, so each call would move the same dead letters: "+
			"publish dead letters to a stream without DenyDelete", r.dead, config.Name)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(r.dead))
	if err != nil {
		return err
	}
	for next := info.State.FirstSeq; next <= info.State.LastSeq && ctx.Err() == nil; {
		letter, err := stream.GetMsg(ctx, next, jetstream.WithGetMsgSubject(r.dead))
		late := err == nil && letter.Sequence > info.State.LastSeq // it arrived during this call
		if late || errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		next = letter.Sequence + 1
		d, unreadable := DeadLetterOf(letter.Header)
		if unreadable == nil {
			unreadable = mayGoBack(js, subjects, letter)
		}
		total := int(info.State.Subjects[r.dead])
		if err := walk.Look(d, unreadable, total, func(due time.Time) (bool, error) {
			return publishAgain(ctx, js, stream, letter, due)
		}); err != nil {
			return fmt.Errorf("dead letter %d: %w", letter.Sequence, err)
		}
	}
	return ctx.Err()
}

// mayGoBack returns an error if the message of a dead letter must not be published again.
func mayGoBack(js jetstream.JetStream, subjects []string, letter *jetstream.RawStreamMsg) error {
	subject, leftOut := letter.Header.Get(SubjectHeader), letter.Header.Get(leftOutHeader)
	inbox, _, _ := strings.Cut(js.Conn().NewInbox(), ".")
	switch {
	case leftOut != "":
		return retryjob.Stuck(fmt.Errorf("message %d: the dead letter lacks the %.100q of its message",
			letter.Sequence, leftOut))
	case !allowed(subjects, inbox, subject):
		return retryjob.Stuck(fmt.Errorf(
			"message %d: header %s is %.100q, which is not one of the consumer's subjects %.300q",
			letter.Sequence, SubjectHeader, subject, subjects))
	default:
		return nil
	}
}

// publishAgain publishes the message of a dead letter again, to be handled at the time `due`, and
// deletes the dead letter. It returns false if somebody else has deleted the dead letter.
func publishAgain(
	ctx context.Context, js jetstream.JetStream, stream jetstream.Stream,
	letter *jetstream.RawStreamMsg, due time.Time,
) (bool, error) {
	msg := nats.NewMsg(letter.Header.Get(SubjectHeader))
	msg.Data = letter.Data
	copyHeaders(msg.Header, letter.Header)
	msg.Header.Set(dueHeader, due.UTC().Format(time.RFC3339Nano))
	id := fmt.Sprintf("%s/%d/%d", letter.Subject, letter.Sequence, letter.Time.UnixNano())
	ack, err := js.PublishMsg(ctx, msg, jetstream.WithMsgID(id))
	if err != nil && ctx.Err() != nil {
		return false, err
	}
	if err != nil { // if the server has failed, the next read ends Redrive
		return false, retryjob.Stuck(fmt.Errorf("message %d: %w", letter.Sequence, err))
	}
	if ack.Duplicate {
		same, err := isStored(ctx, js, ack, msg)
		// This message was published before, perhaps by another Redrive. If the stream no longer has
		// the message that was published first, a worker has already handled it.
		if !same && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return false, err
		}
	}
	err = stream.DeleteMsg(ctx, letter.Sequence)
	if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		// The error does not say why the server did not delete the dead letter. If the dead letter is
		// gone, another Redrive has deleted it.
		if _, gone := stream.GetMsg(ctx, letter.Sequence); errors.Is(gone, jetstream.ErrMsgNotFound) {
			return false, nil
		}
	}
	return err == nil, err
}
