package kafka_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/programs/queues/kafka"
	"github.com/goretry/retry/retryjob"
)

var errBoom = errors.New("boom")

// A cluster has one topic, its retry topics, and its topic for dead letters.
type cluster struct {
	*testing.T
	brokers []string
	topic   string
	began   time.Time
	client  *kgo.Client

	mu       sync.Mutex
	attempts map[string][]int // the numbers of the attempts, by the key of the record
	last     map[string]time.Time
}

// newCluster uses the brokers of RETRY_TEST_KAFKA, or a broker in this process.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t, topic: fmt.Sprintf("orders-%d", time.Now().UnixNano()), began: time.Now(), attempts: map[string][]int{}, last: map[string]time.Time{}}
	if text := os.Getenv("RETRY_TEST_KAFKA"); text != "" {
		c.brokers = strings.Split(text, ",")
	} else {
		fake, err := kfake.NewCluster(kfake.NumBrokers(1))
		require.NoError(t, err)
		t.Cleanup(fake.Close)
		c.brokers = fake.ListenAddrs()
	}
	var err error
	c.client, err = kgo.NewClient(kgo.SeedBrokers(c.brokers...), kgo.ConsumeTopics(c.topic+".dead"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	t.Cleanup(c.client.Close)
	_, err = kadm.NewClient(c.client).CreateTopics(t.Context(), 4, 1, nil, append(kafka.Topics(c.topic), c.topic)...)
	require.NoError(t, err)
	return c
}

func (c *cluster) publish(keys ...string) {
	c.Helper()
	for _, key := range keys {
		require.NoError(c, c.client.ProduceSync(c.Context(), &kgo.Record{Topic: c.topic, Key: []byte(key), Value: []byte("x")}).FirstErr())
	}
}

var errSlow = errors.New("slow")

// The variable `policy` has short delays, and two attempts for slow errors.
var policy = retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(20 * time.Millisecond), Classify: func(err error) *retry.Class {
	if errors.Is(err, errSlow) {
		return &retry.Class{Name: "slow", MaxAttempts: 2, Backoff: retry.Fixed(20 * time.Millisecond)}
	}
	return nil
}}

// The method `start` runs a consumer until the test calls the result `stop`, or until the test
// ends.
func (c *cluster) start(do func(key string, attempt int) error) (stop func()) {
	c.Helper()
	p, key := policy, ""
	p.OnEvent = func(_ context.Context, e retry.Event) { // an attempt that `stop` interrupts is made again
		if e.Kind == retry.RetryScheduled || e.Kind == retry.CallFinished && e.Reason != retry.ReasonCanceled {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.attempts[key] = append(c.attempts[key], e.Attempt)
		}
	}
	consumer, err := kafka.New(p, c.topic, "group", c.brokers...)
	require.NoError(c, err)
	ctx, cancel := context.WithCancel(c.Context())
	done := make(chan error, 1)
	go func() {
		done <- consumer.Run(ctx, func(_ context.Context, r *kgo.Record, attempt int) error {
			key = string(r.Key)
			c.mu.Lock()
			defer c.mu.Unlock()
			if last := c.last[key]; attempt > 1 && time.Since(last) < 20*time.Millisecond {
				c.Errorf("attempt %d of %s is early", attempt, key)
			}
			c.last[key] = time.Now()
			return do(key, attempt)
		})
		consumer.Close()
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(c, <-done)
	})
	c.Cleanup(stop)
	return stop
}

// The method `until` waits until each key in the map `want` has had the number of attempts in this
// map.
func (c *cluster) until(want map[string]int) {
	c.Helper()
	require.Eventually(c, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for key, n := range want {
			if len(c.attempts[key]) < n {
				return false
			}
		}
		return true
	}, time.Minute, 20*time.Millisecond)
}

// The method `dead` returns the reason, the attempts and the error of the next n dead letters, by
// key.
func (c *cluster) dead(n int) map[string]string {
	c.Helper()
	letters := map[string]string{}
	for len(letters) < n {
		fetches := c.client.PollFetches(c.Context())
		require.NoError(c, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			var d retryjob.DeadLetter
			require.NoError(c, json.Unmarshal([]byte(kafka.Header(r, kafka.DeadLetterHeader)), &d))
			assert.WithinRange(c, d.Began, c.began, d.Ended)
			letters[d.Key] = fmt.Sprint(d.Reason, " ", d.Attempts, " ", d.Err)
		})
	}
	return letters
}

func TestConsumer(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.publish("eve", "ann", "bob", "carol", "dave", "fred")
	c.start(func(key string, attempt int) error {
		switch {
		case key == "ann", key != "carol" && key != "fred" && attempt == 2:
			return nil
		case key == "fred" && attempt > 1:
			return errSlow
		case key == "dave":
			return retry.Permanent(errBoom)
		case key == "eve":
			return retry.After(1200*time.Millisecond, errBoom) // goes to another topic than the other records
		default:
			return errBoom
		}
	})
	c.until(map[string]int{"ann": 1, "bob": 2, "carol": 4, "dave": 1, "eve": 2, "fred": 3})
	assert.GreaterOrEqual(t, time.Since(c.began), 1200*time.Millisecond)
	assert.Equal(t, map[string]string{
		"carol": "attempts_exhausted 4 retry: attempts exhausted after 4 attempts: boom",
		"dave":  "permanent_error 1 retry: permanent error after 1 attempt: boom",
		"fred":  `attempts_exhausted 3 retry: attempts exhausted after 3 attempts (2 of "slow"): slow`,
	}, c.dead(3))
	assert.Equal(t, map[string][]int{"ann": {1}, "bob": {1, 2}, "carol": {1, 2, 3, 4}, "dave": {1}, "eve": {1, 2}, "fred": {1, 2, 3}}, c.attempts)
}

// A second member joins while the first member works, and then the first member leaves. No attempt
// that has ended is made twice or left out.
func TestRebalance(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	do := func(_ string, attempt int) error {
		time.Sleep(3 * time.Millisecond)
		if attempt < 3 {
			return errBoom
		}
		return nil
	}
	first := c.start(do)
	want, attempts := map[string]int{"key": 3}, map[string][]int{"key": {1, 2, 3}}
	c.publish("key")
	c.until(map[string]int{"key": 1})
	var joined atomic.Bool
	c.start(func(key string, attempt int) error {
		joined.Store(true)
		return do(key, attempt)
	})
	for i := 0; !joined.Load(); i++ {
		require.Less(t, time.Since(c.began), time.Minute)
		key := fmt.Sprint("key-", i)
		want[key], attempts[key] = 3, []int{1, 2, 3}
		c.publish(key)
		time.Sleep(3 * time.Millisecond)
	}
	first()
	c.until(want)
	assert.Equal(t, attempts, c.attempts)
}

const child = "RETRY_KAFKA_CHILD" // the brokers and the topic of a consumer that hangs in its attempt

func TestMain(m *testing.M) {
	brokers, topic, is := strings.Cut(os.Getenv(child), " ")
	if !is {
		os.Exit(m.Run())
	}
	consumer, err := kafka.New(policy, topic, "group", strings.Split(brokers, ",")...)
	if err == nil {
		err = consumer.Run(context.Background(), func(context.Context, *kgo.Record, int) error {
			fmt.Println("began")
			select {}
		})
	}
	fmt.Println(err)
}

// An attempt of a consumer that was killed does not count, because Kafka counts no deliveries. The
// same attempt is made again.
func TestKilledConsumer(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.publish("ann")
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), child+"="+strings.Join(c.brokers, ",")+" "+c.topic)
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	assert.NoError(t, err)
	assert.Equal(t, "began\n", line)
	require.NoError(t, command.Process.Kill())
	assert.Error(t, command.Wait())

	c.start(func(_ string, attempt int) error {
		if attempt == 1 {
			return errBoom
		}
		return nil
	})
	c.until(map[string]int{"ann": 2})
	assert.Equal(t, map[string][]int{"ann": {1, 2}}, c.attempts)
}
