package retrynats

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// checkStart returns an error if Consume cannot work with the consumer, or with the stream of
// the dead letters.
func (r *Retries) checkStart(
	ctx context.Context, js jetstream.JetStream, info *jetstream.ConsumerInfo,
) error {
	if err := check(info.Config); err != nil {
		return fmt.Errorf("consumer %s: %w", info.Name, err)
	}
	if err := r.checkStream(ctx, js, info.Stream); err != nil {
		return fmt.Errorf("dead letters go to %q: %w", r.dead, err)
	}
	return nil
}

// The function `check` returns an error if Consume cannot work with a consumer that has the
// configuration c.
func check(c jetstream.ConsumerConfig) error {
	switch {
	case c.AckPolicy != jetstream.AckExplicitPolicy:
		return fmt.Errorf("AckPolicy is %v: write AckExplicitPolicy", c.AckPolicy)
	case len(c.BackOff) > 0:
		return errors.New("BackOff is set and replaces AckWait, so the server may deliver a message " +
			"again while its handler runs: do not set BackOff")
	case c.MaxDeliver > 0:
		return fmt.Errorf("MaxDeliver is %d, so the server limits the deliveries of a message: "+
			"write -1, because the policy limits the attempts", c.MaxDeliver)
	case c.MaxAckPending > 0:
		return fmt.Errorf("MaxAckPending is %d, so %d messages that wait for a retry "+
			"would block all other messages: write -1", c.MaxAckPending, c.MaxAckPending)
	case c.HeadersOnly:
		return errors.New("HeadersOnly is true, so dead letters would lack the data of their messages: " +
			"write false")
	case c.MaxRequestExpires > 0 && c.MaxRequestExpires < pull:
		return fmt.Errorf("MaxRequestExpires is %v, but Consume waits %v for a message: "+
			"write at least %v, or do not set MaxRequestExpires", c.MaxRequestExpires, pull, pull)
	case len(c.PriorityGroups) > 0:
		return fmt.Errorf("PriorityGroups is %q, but Consume asks for messages without a group: "+
			"do not set PriorityGroups", c.PriorityGroups)
	}
	return nil
}

// checkStream returns an error if dead letters would be lost. It also returns an error if their
// stream is the stream of the messages, because dead letters would then be handled as messages.
// The parameter `source` is the name of the stream of the messages.
func (r *Retries) checkStream(ctx context.Context, js jetstream.JetStream, source string) error {
	stream, err := r.deadStream(ctx, js)
	if err != nil {
		return err
	}
	config := stream.CachedInfo().Config
	if config.Name == source {
		return fmt.Errorf("the stream %s stores this subject, but also the messages of the consumer: "+
			"use another stream for dead letters", source)
	}
	if err := checkDead(config); err != nil {
		return fmt.Errorf("in the stream %s: %w", config.Name, err)
	}
	return nil
}

// checkDead returns an error if a stream with the configuration c would lose dead letters.
func checkDead(c jetstream.StreamConfig) error {
	old := c.Discard == jetstream.DiscardOld
	switch {
	case c.Retention == jetstream.InterestPolicy:
		return errors.New("Retention is Interest, so the stream drops messages that no consumer " +
			"waits for: write LimitsPolicy or WorkQueuePolicy")
	case c.MaxMsgsPerSubject > 0 && (old || !c.DiscardNewPerSubject):
		return fmt.Errorf("MaxMsgsPerSubject is %d, so a new dead letter drops an older one: "+
			"do not set MaxMsgsPerSubject", c.MaxMsgsPerSubject)
	case c.MaxMsgs > 0 && old:
		return fmt.Errorf("MaxMsgs is %d with DiscardOld, so a new dead letter drops an older one: "+
			"write DiscardNew", c.MaxMsgs)
	case c.MaxBytes > 0 && old:
		return fmt.Errorf("MaxBytes is %d with DiscardOld, so a new dead letter drops an older one: "+
			"write DiscardNew", c.MaxBytes)
	case c.Storage == jetstream.MemoryStorage:
		return errors.New("Storage is Memory, so the stream loses all messages at a restart: " +
			"write FileStorage")
	case c.NoAck:
		return errors.New("NoAck is true, so the stream would not confirm dead letters: write false")
	case c.Sealed:
		return errors.New("Sealed is set, so the stream cannot store dead letters: use another stream")
	case c.SubjectTransform != nil:
		return errors.New("SubjectTransform is set, so Redrive would not find the dead letters: " +
			"do not set SubjectTransform")
	}
	return nil
}
