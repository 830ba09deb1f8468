package retrynats_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/jobtest"
	"github.com/goretry/retry/adapters/jobtest/servers"
	"github.com/goretry/retry/adapters/retrynats"
	"github.com/goretry/retry/retryjob"
)

// The tests run against the installed server, and, with fewer kills, against the newest server.

func TestEngine(t *testing.T) {
	onBoth(t, func(t *testing.T, e jobtest.Engine, _ int) { jobtest.Run(t, e) })
}

// .ci/soak runs these tests with more jobs and kills.

func TestLoad(t *testing.T) {
	onBoth(t, func(t *testing.T, e jobtest.Engine, _ int) {
		jobtest.Load(t, e, servers.Amount(t, "RETRY_JOBS", 1000))
	})
}

func TestKills(t *testing.T) {
	onBoth(t, func(t *testing.T, e jobtest.Engine, fewer int) {
		jobtest.Kills(t, e, servers.Amount(t, "RETRY_KILLS", 30/fewer))
	})
}

func TestRedrive(t *testing.T) {
	onBoth(t, func(t *testing.T, e jobtest.Engine, fewer int) {
		jobtest.Redrive(t, e, servers.Amount(t, "RETRY_KILLS", 10/fewer))
	})
}

func onBoth(t *testing.T, test func(t *testing.T, e jobtest.Engine, fewer int)) {
	t.Parallel()
	t.Run("installed", func(t *testing.T) {
		t.Parallel()
		test(t, engine(servers.Shared(t, "RETRY_TEST_NATS")), 1)
	})
	t.Run("newest", func(t *testing.T) {
		t.Parallel()
		e := engine(shared(t))
		require.False(t, e.Forgets, "the newest server gets no exception")
		test(t, e, 5)
	})
}

// The server restarts under load.
func TestRestarts(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *servers.Server{
		"installed": func(t *testing.T) *servers.Server { return servers.NATS(t, "") }, "newest": newest,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			restarts(t, s, engine("nats://"+s.Address), s.Stop)
		})
	}
}

func restarts(t *testing.T, s *servers.Server, e jobtest.Engine, end func()) {
	t.Helper()
	jobtest.Restarts(t, e, 200, servers.Amount(t, "RETRY_RESTARTS", 2), func(int) error {
		end()
		s.Start()
		return nil
	})
}

// newest starts the newest server.
func newest(t *testing.T) *servers.Server {
	t.Helper()
	program := filepath.Join(t.TempDir(), "nats-server")
	require.NoError(t, build(program))
	return servers.NATS(t, program)
}

// build compiles the newest server, which is in the go.mod. In this process, the race detector would
// also report the races of the server.
func build(program string) error {
	output, err := exec.Command("go", "build", "-o", program, "github.com/nats-io/nats-server/v2").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return nil
}

const sharedVariable = "RETRY_TEST_NATS_NEWEST"

// shared returns the URL of the newest server, which this process or its parent has started. All
// tests use this server, except those that restart a server.
func shared(t *testing.T) string {
	url, err := startShared()
	require.NoError(t, err)
	return url
}

var startShared = sync.OnceValues(func() (string, error) {
	if url := os.Getenv(sharedVariable); url != "" {
		return url, nil
	}
	directory, err := os.MkdirTemp("", "retrynats-")
	if err != nil {
		return "", err
	}
	program := filepath.Join(directory, "nats-server")
	if err := build(program); err != nil {
		return "", err
	}
	// The server chooses a free port, and writes it to a file.
	command := exec.Command(program, "-js", "-a", "127.0.0.1", "-p", "-1", "-sd", directory, "--ports_file_dir", directory)
	if err := command.Start(); err != nil {
		return "", err
	}
	stopShared = func() error {
		err := command.Process.Kill()
		_ = command.Wait() // the error only reports the kill
		return errors.Join(err, os.RemoveAll(directory))
	}
	policy := retry.Policy{MaxElapsed: 30 * time.Second, Backoff: retry.Fixed(50 * time.Millisecond)}
	url, err := retry.DoValue(context.Background(), policy, func(context.Context) (string, error) {
		data, err := os.ReadFile(filepath.Join(directory, fmt.Sprintf("nats-server_%d.ports", command.Process.Pid)))
		var ports struct {
			NATS []string `json:"nats"`
		}
		if err = cmp.Or(err, json.Unmarshal(data, &ports)); err == nil && len(ports.NATS) == 0 {
			err = errors.New("the file has no port yet")
		}
		return strings.Join(ports.NATS, ","), err
	})
	return url, errors.Join(err, os.Setenv(sharedVariable, url))
})

var stopShared = func() error { return nil }

func TestMain(m *testing.M) {
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

const ackWait = 2 * time.Second

func engine(url string) jobtest.Engine {
	return jobtest.Engine{
		Open:  func(ctx context.Context, name string) (jobtest.Queue, error) { return open(ctx, url, name) },
		Unit:  50 * time.Millisecond,
		Late:  30 * time.Second, // because the machine may be busy
		Lease: ackWait + time.Second,
		// After a client died or stopped, 2.9.10 and 2.10.4 sometimes deliver its
		// message again as if for the first time; 2.10.29 was not seen to do that.
		Forgets: before29.MatchString(version(url)),
	}
}

var before29 = regexp.MustCompile(`^2\.(\d|10\.1?\d|10\.2[0-8])(\.|$)`) // 2.10.29

// version returns the server's version, or "" if it does not answer. Open then
// returns the error.
func version(url string) string {
	conn, err := nats.Connect(url)
	if err != nil {
		return ""
	}
	defer conn.Close()
	return conn.ConnectedServerVersion()
}

// A queue is one stream for the jobs and another stream for their dead letters.
type queue struct {
	name string
	conn *nats.Conn
	js   jetstream.JetStream
	dead jetstream.Stream

	planted map[string]string // maps the Key of a dead letter that may lack the data to the key of its job
}

func open(ctx context.Context, url, name string) (*queue, error) {
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	q := &queue{name: name, conn: conn}
	if q.js, err = jetstream.New(conn); err != nil {
		return nil, err
	}
	if _, err = q.stream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name + ".jobs"}, Retention: jetstream.WorkQueuePolicy}); err != nil {
		return nil, err
	}
	q.dead, err = q.stream(ctx, jetstream.StreamConfig{Name: name + "_dead", Subjects: []string{name + ".dead"}})
	return q, err
}

// stream makes a stream, and tries again if the server fails. With its last stream, the server also
// removes the directory of all streams. If a parallel test makes a stream at this moment, the
// server fails.
func (q *queue) stream(ctx context.Context, config jetstream.StreamConfig) (jetstream.Stream, error) {
	p := retry.Policy{MaxAttempts: 10, Backoff: retry.Fixed(10 * time.Millisecond)}
	return retry.DoValue(ctx, p, func(ctx context.Context) (jetstream.Stream, error) {
		return q.js.CreateOrUpdateStream(ctx, config)
	})
}

func (q *queue) Enqueue(ctx context.Context, key string, maxAttempts int) error {
	msg := nats.NewMsg(q.name + ".jobs")
	msg.Data = []byte(key)
	if maxAttempts > 0 {
		msg.Header.Set(retrynats.MaxAttemptsHeader, strconv.Itoa(maxAttempts))
	}
	_, err := q.js.PublishMsg(ctx, msg, jetstream.WithMsgID(key))
	return err
}

// Plant publishes messages that are as large as the server allows, and messages whose headers
// have impossible values.
func (q *queue) Plant(ctx context.Context, keys []string) error {
	q.planted = map[string]string{}
	for i, key := range keys {
		msg := nats.NewMsg(q.name + ".jobs")
		msg.Data = []byte(key + " ")
		header := []string{"Retry-Due: never", "Retry-Due: 9999-12-31T23:59:59Z", retrynats.MaxAttemptsHeader + ": 0", "Retry-Dead-Letter: {}"}[i%4]
		name, value, _ := strings.Cut(header, ": ")
		switch i % 3 {
		case 0: // 0 to 100 bytes below the maximum
			msg.Data = append(msg.Data, make([]byte, int(q.conn.MaxPayload())-len(msg.Data)-i%101)...)
		case 1:
			msg.Header.Set("Big", strings.Repeat("x", 65_450))
		default:
			msg.Header.Set(name, value)
		}
		ack, err := q.js.PublishMsg(ctx, msg)
		if err != nil {
			return err
		}
		q.planted[fmt.Sprintf("%s/worker/%d", q.name, ack.Sequence)] = key
	}
	return nil
}

// Forge publishes messages to the subject for dead letters. These messages are not dead letters, or
// name a subject that is not the consumer's.
func (q *queue) Forge(ctx context.Context, keys []string) error {
	const dead, forged = "Retry-Dead-Letter", `{"reason":"permanent_error"}`
	for i, key := range keys {
		letter := nats.NewMsg(q.name + ".dead")
		letter.Data = []byte(key)
		letter.Header = []nats.Header{{}, {dead: {"{"}}, {dead: {`{"attempts":1}`}}, {dead: {forged}},
			{dead: {forged}, retrynats.SubjectHeader: {"$JS.API.STREAM.DELETE." + q.name}},
			{dead: {forged}, retrynats.SubjectHeader: {q.name + ".jobs"}, "Retry-Left-Out": {"data"}}}[i%6]
		if _, err := q.js.PublishMsg(ctx, letter); err != nil {
			return err
		}
	}
	return nil
}

// keyOf returns the key of a job, which is its data up to the first space.
func keyOf(data []byte) string {
	key, _, _ := strings.Cut(string(data), " ")
	return key
}

func (q *queue) Work(ctx context.Context, p retry.Policy, do func(context.Context, string, int) error) error {
	retries, err := retrynats.New(p, q.name+".dead")
	if err != nil {
		return err
	}
	retries.OnError = func(error) {} // errors are expected, because the tests kill servers
	consumer, err := q.js.CreateOrUpdateConsumer(ctx, q.name, q.config(retries))
	if err != nil {
		return err
	}
	return retries.Consume(ctx, q.js, consumer, func(ctx context.Context, msg jetstream.Msg) error {
		return do(ctx, keyOf(msg.Data()), retrynats.AttemptOf(msg))
	})
}

func (q *queue) config(retries *retrynats.Retries) jetstream.ConsumerConfig {
	config := retries.ConsumerConfig("worker")
	config.AckWait = ackWait
	return config
}

// Open asks the consumer and not the stream, because after a crash the stream may
// still have messages that the consumer knows to be acknowledged.
func (q *queue) Open(ctx context.Context) (int, error) {
	consumer, err := q.js.Consumer(ctx, q.name, "worker")
	if err != nil {
		return 0, err
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		return 0, err
	}
	return int(info.NumPending) + info.NumAckPending, nil
}

func (q *queue) Dead(ctx context.Context) (map[string]retryjob.DeadLetter, error) {
	info, err := q.dead.Info(ctx)
	if err != nil {
		return nil, err
	}
	letters := map[string]retryjob.DeadLetter{}
	if info.State.Msgs == 0 { // FirstSeq and LastSeq mean nothing then
		return letters, nil
	}
	for n := info.State.FirstSeq; n <= info.State.LastSeq; n++ {
		msg, err := q.dead.GetMsg(ctx, n)
		if errors.Is(err, jetstream.ErrMsgNotFound) { // the dead letter was moved back
			continue
		}
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(string(msg.Data), jobtest.ForgedPrefix) {
			continue
		}
		d, err := retrynats.DeadLetterOf(msg.Header)
		if err != nil {
			return nil, err
		}
		key := cmp.Or(keyOf(msg.Data), q.planted[d.Key])
		if _, twice := letters[key]; twice || msg.Header.Get(retrynats.SubjectHeader) != q.name+".jobs" {
			return nil, fmt.Errorf("a second dead letter of %s, or a dead letter of subject %q", key, msg.Header.Get(retrynats.SubjectHeader))
		}
		letters[key] = d
	}
	return letters, nil
}

func (q *queue) Redrive(ctx context.Context, o retryjob.RedriveOptions) (retryjob.RedriveResult, error) {
	retries, err := retrynats.New(retry.Default(), q.name+".dead")
	if err != nil {
		return retryjob.RedriveResult{}, err
	}
	consumer, err := q.js.CreateOrUpdateConsumer(ctx, q.name, q.config(retries))
	if err != nil {
		return retryjob.RedriveResult{}, err
	}
	return retries.Redrive(ctx, q.js, consumer, o)
}

func (q *queue) Close(ctx context.Context, remove bool) error {
	defer q.conn.Close()
	if !remove {
		return nil
	}
	return errors.Join(q.js.DeleteStream(ctx, q.name), q.js.DeleteStream(ctx, q.name+"_dead"))
}
