// Package kafka retries the records of a Kafka topic according to a policy. It uses franz-go. Copy
// this code and change it. A record that fails is copied to a retry topic. A record that is not
// retried any more is copied to the topic for dead letters, such as "orders.dead", together with
// the reason.
//
// A partition is read in order, so a record with a short delay would have to wait for an earlier
// record with a long delay. Therefore there are several retry topics: "orders.retry.1s" for delays
// below 1s, "orders.retry.10s" for delays below 10s, and so on. A header of a record says when the
// record is due. A partition of a retry topic is paused until its first record is due. Other
// headers contain the number of attempts and the number of failures of each class. So these numbers
// are the same after a rebalance.
package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// This package adds these headers to a record.
const (
	DeadLetterHeader = "retry-dead-letter" // a retryjob.DeadLetter as JSON
	attemptsHeader   = "retry-attempts"    // how many attempts have ended
	classesHeader    = "retry-classes"     // how many attempts failed with each class, as JSON
	dueHeader        = "retry-due"         // when the next attempt is due, in Unix nanoseconds
	beganHeader      = "retry-began"       // when the first attempt began, in Unix nanoseconds
)

// decades contains one limit for each retry topic. The delays in a topic are below the limit of
// this topic. The last topic also gets the delays above its limit.
var decades = []time.Duration{
	time.Second, 10 * time.Second, 100 * time.Second, 1000 * time.Second, 10_000 * time.Second,
}

// Topics returns the names of the topics that a Consumer of `topic` needs in addition to `topic`
// itself. The last name is the topic for dead letters, and the others are the retry topics.
func Topics(topic string) (names []string) {
	for _, decade := range decades {
		names = append(names, fmt.Sprintf("%s.retry.%.0fs", topic, decade.Seconds()))
	}
	return append(names, topic+".dead")
}

// A Consumer handles the records of a topic as one member of a consumer group.
type Consumer struct {
	policy retry.Policy
	topic  string
	client *kgo.Client
	paused map[partition]time.Time // when the first record of each paused partition is due
}

type partition struct {
	topic  string
	number int32
}

// New returns a Consumer that reads the topic with the name `topic` and the retry topics of this
// topic.
func New(policy retry.Policy, topic, group string, brokers ...string) (*Consumer, error) {
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	topics := Topics(topic)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(append([]string{topic}, topics[:len(topics)-1]...)...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),             // no rebalance while records are handled
		kgo.FetchMaxWait(200*time.Millisecond), // the longest time of a fetch, which may delay a retry
		kgo.SessionTimeout(6*time.Second),
	)
	if err != nil {
		return nil, err
	}
	return &Consumer{
		policy: policy, topic: topic, client: client, paused: map[partition]time.Time{},
	}, nil
}

// Close leaves the consumer group.
func (c *Consumer) Close() {
	c.client.AllowRebalance()
	c.client.Close()
}

// A Handler handles a record. The parameter `attempt` is 1 for the first attempt at a record.
type Handler func(ctx context.Context, r *kgo.Record, attempt int) error

// Run handles records, one after the other, until ctx ends. Then it returns nil. If Run returns an
// error, some handled records may not be committed. The group handles these records again.
func (c *Consumer) Run(ctx context.Context, handle Handler) error {
	for {
		polling, cancel := context.WithDeadline(ctx, c.resume())
		fetches := c.client.PollRecords(polling, 100)
		cancel()
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return nil
		}
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) {
				return fmt.Errorf("topic %s, partition %d: %w", e.Topic, e.Partition, e.Err)
			}
		}
		var err error
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				if err != nil || ctx.Err() != nil || !c.isDue(r) {
					return
				}
				err = c.handleOne(ctx, r, handle)
			}
		})
		c.client.AllowRebalance()
		if err != nil {
			return err
		}
	}
}

// isDue reports whether a record is due. If the record is not due, isDue pauses its partition.
// Later the partition resumes with this record.
func (c *Consumer) isDue(r *kgo.Record) bool {
	due := time.Unix(0, number(r, dueHeader))
	if !due.After(time.Now()) {
		return true
	}
	c.paused[partition{r.Topic, r.Partition}] = due
	c.client.PauseFetchPartitions(map[string][]int32{r.Topic: {r.Partition}})
	offset := kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset}
	c.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{r.Topic: {r.Partition: offset}})
	return false
}

// The method `resume` resumes the paused partitions whose first record is due. It returns the time
// when the next paused partition must be resumed, at most a second from now.
func (c *Consumer) resume() time.Time {
	now := time.Now()
	next := now.Add(time.Second)
	for p, due := range c.paused {
		if due.After(now) {
			if due.Before(next) {
				next = due
			}
			continue
		}
		delete(c.paused, p)
		c.client.ResumeFetchPartitions(map[string][]int32{p.topic: {p.number}})
	}
	return next
}

// handleOne makes one attempt at a record. If the attempt fails, handleOne first writes a copy of
// the record to another topic, and then commits the record. If the consumer is killed in between,
// both the record and its copy are handled.
func (c *Consumer) handleOne(ctx context.Context, r *kgo.Record, handle Handler) error {
	began := time.Now()
	if n := number(r, beganHeader); n > 0 {
		began = time.Unix(0, n)
	}
	attempt := int(number(r, attemptsHeader)) + 1
	job := retryjob.Job{Key: string(r.Key), Attempt: attempt, Began: began}
	// If the header is missing or invalid, the number of earlier failures is taken as 0.
	_ = json.Unmarshal([]byte(Header(r, classesHeader)), &job.Classes)
	if job.Classes == nil {
		job.Classes = map[string]int{}
	}
	var settled error
	run := func(ctx context.Context) error { return handle(ctx, r, attempt) }
	retryjob.Run(ctx, c.policy, job, run, func(o retryjob.Outcome) {
		switch {
		case o.Err == nil:
		case o.Interrupted():
			return // the record is not committed, so another member of the group handles it
		case o.Retry():
			if o.Class != "" {
				job.Classes[o.Class]++
			}
			classes, _ := json.Marshal(job.Classes) // Marshal cannot fail for texts and numbers
			settled = c.move(ctx, r, c.topicFor(o.Delay), map[string]string{
				attemptsHeader: strconv.Itoa(o.Attempts),
				classesHeader:  string(classes),
				beganHeader:    strconv.FormatInt(began.UnixNano(), 10),
				dueHeader:      strconv.FormatInt(time.Now().Add(o.Delay).UnixNano(), 10),
			})
		default:
			letter, _ := json.Marshal(o.DeadLetter(job)) // Marshal cannot fail for a DeadLetter
			headers := map[string]string{DeadLetterHeader: string(letter)}
			settled = c.move(ctx, r, c.topic+".dead", headers)
		}
		if settled == nil {
			settled = c.client.CommitRecords(context.WithoutCancel(ctx), r)
		}
	})
	return settled
}

func (c *Consumer) topicFor(delay time.Duration) string {
	for i, decade := range decades {
		if delay < decade {
			return Topics(c.topic)[i]
		}
	}
	return Topics(c.topic)[len(decades)-1]
}

// The method `move` writes a copy of r to another topic. It replaces the headers of this package
// with the given headers.
func (c *Consumer) move(
	ctx context.Context, r *kgo.Record, topic string, headers map[string]string,
) error {
	own := []string{DeadLetterHeader, attemptsHeader, classesHeader, dueHeader, beganHeader}
	copied := &kgo.Record{Topic: topic, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
	for _, h := range r.Headers {
		if !slices.Contains(own, h.Key) {
			copied.Headers = append(copied.Headers, h)
		}
	}
	for name, value := range headers {
		copied.Headers = append(copied.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	if err := c.client.ProduceSync(context.WithoutCancel(ctx), copied).FirstErr(); err != nil {
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	return nil
}

// Header returns a header of a record. It returns "" if the record does not have this header.
func Header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// The function `number` returns the value of a header as an integer. It returns 0 if the header is
// missing or invalid.
func number(r *kgo.Record, name string) int64 {
	n, _ := strconv.ParseInt(Header(r, name), 10, 64)
	return n
}
