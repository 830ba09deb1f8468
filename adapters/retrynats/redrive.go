package retrynats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/goretry/retry/retryjob"
)

// Redrive publishes dead letters of a consumer's messages again, to the subjects that they
// come from: each gets all its attempts, and is handled at its moment in o.Window. Then it
// deletes them. What it cannot read, it skips.
//
// Anyone who may publish to the subject for dead letters can write one. So a message goes
// only to a subject that consumer filters or, if it has no filter, that its stream has, and
// never to one that begins with "$", or to an inbox. A letter that cannot go back stays.
// Redrive goes on with the others, and returns an error that names it. It refuses a stream of
// dead letters with DenyDelete.
//
// If Redrive is killed or fails, no message is lost, and it can be called again. A dead
// letter that was published and not deleted is then published with the same
// Nats-Msg-Id, which its stream takes only once in the time of its setting Duplicates, 2
// minutes by default. Later than that it is handled twice. If another message has that
// Nats-Msg-Id, the dead letter is skipped.
func (r *Retries) Redrive(ctx context.Context, js jetstream.JetStream, consumer jetstream.Consumer, o retryjob.RedriveOptions) (retryjob.RedriveResult, error) {
	return o.Walk("retrynats", func(walk *retryjob.Walk) error {
		subjects, err := subjectsOf(ctx, js, consumer)
		if err != nil {
			return err
		}
		return r.redrive(ctx, js, subjects, walk)
	})
}

// subjectsOf returns the subjects of a consumer's messages, which may have wildcards.
func subjectsOf(ctx context.Context, js jetstream.JetStream, consumer jetstream.Consumer) ([]string, error) {
	info, err := consumer.Info(ctx)
	if err != nil {
		return nil, err
	}
	if filter := info.Config.FilterSubject; filter != "" {
		return []string{filter}, nil
	}
	if filters := info.Config.FilterSubjects; len(filters) > 0 {
		return filters, nil
	}
	stream, err := js.Stream(ctx, info.Stream)
	if err != nil {
		return nil, err
	}
	return stream.CachedInfo().Config.Subjects, nil
}

func (r *Retries) redrive(ctx context.Context, js jetstream.JetStream, subjects []string, walk *retryjob.Walk) error {
	stream, err := r.deadStream(ctx, js)
	if err != nil {
		return err
	}
	if config := stream.CachedInfo().Config; config.DenyDelete {
		return fmt.Errorf("dead letters go to %q, in the stream %s: DenyDelete is set, so each call would move the same ones: "+
			"publish them to a stream without it", r.dead, config.Name)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(r.dead))
	if err != nil {
		return err
	}
	for next := info.State.FirstSeq; next <= info.State.LastSeq && ctx.Err() == nil; {
		letter, err := stream.GetMsg(ctx, next, jetstream.WithGetMsgSubject(r.dead))
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && letter.Sequence > info.State.LastSeq {
			return nil // the rest is of other subjects, or came meanwhile
		}
		if err != nil {
			return err
		}
		next = letter.Sequence + 1
		d, unreadable := DeadLetterOf(letter.Header)
		if unreadable == nil {
			unreadable = mayGoBack(js, subjects, letter)
		}
		if err := walk.Look(d, unreadable, int(info.State.Subjects[r.dead]), func(due time.Time) (bool, error) {
			return publishAgain(ctx, js, stream, letter, due)
		}); err != nil {
			return fmt.Errorf("dead letter %d: %w", letter.Sequence, err)
		}
	}
	return ctx.Err()
}

// mayGoBack returns why the message of a dead letter may not go back.
func mayGoBack(js jetstream.JetStream, subjects []string, letter *jetstream.RawStreamMsg) error {
	subject, leftOut := letter.Header.Get(SubjectHeader), letter.Header.Get(leftOutHeader)
	inbox, _, _ := strings.Cut(js.Conn().NewInbox(), ".")
	switch {
	case leftOut != "":
		return retryjob.Stuck(fmt.Errorf("message %d: it has no room for its %.100q", letter.Sequence, leftOut))
	case !allowed(subjects, inbox, subject):
		return retryjob.Stuck(fmt.Errorf("message %d: header %s is %.100q, which is not one of the consumer's subjects %.300q", letter.Sequence, SubjectHeader, subject, subjects))
	default:
		return nil
	}
}

// allowed reports whether a subject is one of these, and neither the server's own nor an
// inbox.
func allowed(subjects []string, inbox, subject string) bool {
	if strings.HasPrefix(subject, "$") || strings.HasPrefix(subject, inbox+".") || strings.HasPrefix(subject, nats.InboxPrefix) {
		return false
	}
	return slices.ContainsFunc(subjects, func(pattern string) bool { return matches(pattern, subject) })
}

// matches reports whether a subject without wildcards is one of a pattern, which may have
// them.
func matches(pattern, subject string) bool {
	if !isOneSubject(subject) {
		return false
	}
	patterns, tokens := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range tokens {
		switch {
		case i >= len(patterns):
			return false
		case patterns[i] == ">":
			return true
		case patterns[i] != "*" && patterns[i] != token:
			return false
		}
	}
	return len(patterns) == len(tokens)
}

// publishAgain publishes the message of a dead letter to run at due, and deletes the
// dead letter. It reports whether that was still there.
func publishAgain(ctx context.Context, js jetstream.JetStream, stream jetstream.Stream, letter *jetstream.RawStreamMsg, due time.Time) (bool, error) {
	msg := nats.NewMsg(letter.Header.Get(SubjectHeader))
	msg.Data = letter.Data
	copyHeaders(msg.Header, letter.Header)
	msg.Header.Set(dueHeader, due.UTC().Format(time.RFC3339Nano))
	ack, err := js.PublishMsg(ctx, msg, jetstream.WithMsgID(fmt.Sprintf("%s/%d/%d", letter.Subject, letter.Sequence, letter.Time.UnixNano())))
	if err != nil && ctx.Err() != nil {
		return false, err
	}
	if err != nil { // if it is the server's fault, the next letter cannot be read
		return false, retryjob.Stuck(fmt.Errorf("message %d: %w", letter.Sequence, err))
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
