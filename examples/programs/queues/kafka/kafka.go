// Package kafka shows a policy for the records of a Kafka topic, by franz-go, to copy.
// A record that fails goes to a retry topic, and one that is not retried to
// "orders.dead", with the reason.
//
// A partition is read in order, so records with short delays must not wait behind long
// ones: there is a retry topic for each decade, "orders.retry.1s" for delays below 1s,
// "orders.retry.10s" for those below 10s, and so on. A header says when a record is due;
// until the first of a partition is, the partition is paused. The number of attempts, and
// of the failures of each class, is in a header too, so a rebalance does not change it.
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

// The headers that this package adds to a record.
const (
	DeadLetterHeader = "retry-dead-letter" // why a record is a dead letter: a retryjob.DeadLetter as JSON
	attemptsHeader   = "retry-attempts"    // how many attempts have ended
	classesHeader    = "retry-classes"     // how many of them failed with an error of each class, as JSON
	dueHeader        = "retry-due"         // when the next attempt is due, in Unix nanoseconds
	beganHeader      = "retry-began"       // when the first attempt began, for MaxElapsed, in Unix nanoseconds
)

// decades are the delays that the retry topics are for. Longer ones are in the last.
var decades = []time.Duration{time.Second, 10 * time.Second, 100 * time.Second, 1000 * time.Second, 10_000 * time.Second}

// Topics returns the topics that must exist beside topic: those for retries, and last
// the one for dead letters.
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
	paused map[partition]time.Time // when the first record of each is due
}

type partition struct {
	topic  string
	number int32
}

// New returns a Consumer of topic and of its retry topics.
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
		kgo.BlockRebalanceOnPoll(),             // no other member gets a record while it is handled here
		kgo.FetchMaxWait(200*time.Millisecond), // a partition that is resumed waits for the fetch under way
		kgo.SessionTimeout(6*time.Second),
	)
	if err != nil {
		return nil, err
	}
	return &Consumer{policy: policy, topic: topic, client: client, paused: map[partition]time.Time{}}, nil
}

// Close leaves the group.
func (c *Consumer) Close() {
	c.client.AllowRebalance()
	c.client.Close()
}

// Run handles records, one after the other, until ctx ends; then it returns nil. If it
// returns an error, what was not committed is handled again, by this or another member.
func (c *Consumer) Run(ctx context.Context, handle func(ctx context.Context, r *kgo.Record, attempt int) error) error {
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
				if err != nil || ctx.Err() != nil || !c.due(r) {
					return
				}
				err = c.one(ctx, r, handle)
			}
		})
		c.client.AllowRebalance()
		if err != nil {
			return err
		}
	}
}

// due reports whether a record is due. If not, its partition is paused, and goes on
// with this record.
func (c *Consumer) due(r *kgo.Record) bool {
	due := time.Unix(0, number(r, dueHeader))
	if !due.After(time.Now()) {
		return true
	}
	c.paused[partition{r.Topic, r.Partition}] = due
	c.client.PauseFetchPartitions(map[string][]int32{r.Topic: {r.Partition}})
	c.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{r.Topic: {r.Partition: {Epoch: r.LeaderEpoch, Offset: r.Offset}}})
	return false
}

// resume lets go of the partitions whose first record is due, and returns when the
// next one will be, at most in a second.
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

// one makes one attempt. It writes the copy of the record before it commits the
// record: if the consumer is killed in between, there are two.
func (c *Consumer) one(ctx context.Context, r *kgo.Record, handle func(context.Context, *kgo.Record, int) error) error {
	began := time.Now()
	if n := number(r, beganHeader); n > 0 {
		began = time.Unix(0, n)
	}
	attempt := int(number(r, attemptsHeader)) + 1
	job := retryjob.Job{Key: string(r.Key), Attempt: attempt, Began: began}
	_ = json.Unmarshal([]byte(Header(r, classesHeader)), &job.Classes) // what cannot be read is none
	if job.Classes == nil {
		job.Classes = map[string]int{}
	}
	var settled error
	retryjob.Run(ctx, c.policy, job, func(ctx context.Context) error { return handle(ctx, r, attempt) }, func(o retryjob.Outcome) {
		switch {
		case o.Err == nil:
		case o.Interrupted():
			return // not committed: the next member begins with it
		case o.Retry():
			if o.Class != "" {
				job.Classes[o.Class]++
			}
			classes, _ := json.Marshal(job.Classes) // texts and numbers cannot fail
			settled = c.move(ctx, r, c.topicFor(o.Delay), map[string]string{
				attemptsHeader: strconv.Itoa(o.Attempts),
				classesHeader:  string(classes),
				beganHeader:    strconv.FormatInt(began.UnixNano(), 10),
				dueHeader:      strconv.FormatInt(time.Now().Add(o.Delay).UnixNano(), 10),
			})
		default:
			letter, _ := json.Marshal(o.DeadLetter(job)) // it has nothing that JSON has no form for
			settled = c.move(ctx, r, c.topic+".dead", map[string]string{DeadLetterHeader: string(letter)})
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

// move writes a copy of r to another topic.
func (c *Consumer) move(ctx context.Context, r *kgo.Record, topic string, headers map[string]string) error {
	copied := &kgo.Record{Topic: topic, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
	for _, h := range r.Headers {
		if !slices.Contains([]string{DeadLetterHeader, attemptsHeader, classesHeader, dueHeader, beganHeader}, h.Key) {
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

// Header returns a header of a record, "" if it has none of this name.
func Header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// number returns a header with a whole number, 0 if it is missing or malformed.
func number(r *kgo.Record, name string) int64 {
	n, _ := strconv.ParseInt(Header(r, name), 10, 64)
	return n
}
