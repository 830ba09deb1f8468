package retryasynq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryasynq"
	"github.com/goretry/retry/retryjob"
)

func TestNewRefusesAnInvalidPolicy(t *testing.T) {
	_, err := retryasynq.New(retry.Policy{MaxAttempts: -2})
	assert.ErrorContains(t, err, "retryasynq: invalid policy: MaxAttempts is -2")
	retries, err := retryasynq.New(retry.Default())
	require.NoError(t, err)
	assert.ErrorContains(t, retries.SetType("email", retry.Policy{MaxDelay: -1}), "retryasynq: type email: invalid policy: MaxDelay is -1ns")
}

var errBoom = errors.New("boom")

// A service is a server with its own queue.
type service struct {
	*testing.T
	*queue
	retries *retryasynq.Retries
	logged  *strings.Builder // written by the logger; read it after stop
	stop    func()
}

// A notReadyError is not a failure for the server of newService. The IsFailure of this server
// compares only the type of the error, as the example in asynq's documentation does.
type notReadyError struct{}

func (*notReadyError) Error() string { return "not ready" }

// newService starts a server whose policy makes two attempts, but only one for
// tasks of type "other".
func newService(t *testing.T, handle asynq.HandlerFunc) *service {
	t.Helper()
	s := &service{T: t, queue: open(address(t), fmt.Sprintf("retryasynq_%d", time.Now().UnixNano())), logged: &strings.Builder{}}
	retries, err := retryasynq.New(retry.Policy{MaxAttempts: 2})
	require.NoError(t, err)
	require.NoError(t, retries.SetType("other", retry.Policy{NonRetryable: true}))
	config := asynq.Config{
		Concurrency: 4, Queues: map[string]int{s.name: 1}, LogLevel: asynq.FatalLevel, Logger: &logger{to: s.logged},
		TaskCheckInterval: 20 * time.Millisecond, DelayedTaskCheckInterval: 50 * time.Millisecond,
		IsFailure: func(err error) bool {
			_, notReady := err.(*notReadyError)
			return !notReady
		},
	}
	retries.Configure(&config)
	s.retries = retries
	server := asynq.NewServer(s.redis, config)
	require.NoError(t, server.Start(retries.Middleware(handle)))
	s.stop = sync.OnceFunc(server.Shutdown)
	t.Cleanup(func() {
		s.stop()
		assert.NoError(t, s.Close(t.Context(), true))
	})
	return s
}

// A logger records the errors that this package logs. asynq itself logs none here,
// because its level is FatalLevel.
type logger struct {
	mu sync.Mutex
	to *strings.Builder
}

func (l *logger) Error(args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(l.to, args...)
}
func (l *logger) Debug(...any)      {}
func (l *logger) Info(...any)       {}
func (l *logger) Warn(...any)       {}
func (l *logger) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// end enqueues a task, and waits until the task is archived or gone. It returns the archived task,
// or nil if the task is gone.
func (s *service) end(task *asynq.Task, opts ...asynq.Option) *asynq.TaskInfo {
	s.Helper()
	info, err := s.client.Enqueue(task, append(opts, asynq.Queue(s.name))...)
	require.NoError(s, err)
	for {
		switch now, err := s.inspector.GetTaskInfo(s.name, info.ID); {
		case errors.Is(err, asynq.ErrTaskNotFound):
			return nil
		case err != nil:
			require.NoError(s, err)
		case now.State == asynq.TaskStateArchived:
			return now
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *service) letter(task *asynq.TaskInfo) retryjob.DeadLetter {
	s.Helper()
	require.NotNil(s, task)
	d, err := retryasynq.DeadLetterOf(task)
	require.NoError(s, err)
	return d
}

func TestReasonsOfArchivedTasks(t *testing.T) {
	t.Parallel()
	type letter struct {
		Reason   retry.Reason
		Attempts int
		Err      string
	}
	for name, row := range map[string]struct {
		task *asynq.Task
		do   error
		want letter // the zero letter means that the task is gone
	}{
		"a policy for the type": {retryasynq.NewTask("other", nil), errBoom,
			letter{retry.ReasonNonRetryable, 1, "retry: not retryable after 1 attempt: boom"}},
		"its own limit is above the policy's": {retryasynq.NewTask("mail", nil, asynq.MaxRetry(math.MaxInt32)), errBoom,
			letter{retry.ReasonExhausted, 2, "retry: attempts exhausted after 2 attempts: boom"}},
		"made by asynq.NewTask": {asynq.NewTask("mail", nil), errBoom,
			letter{retry.ReasonExhausted, 2, "retry: attempts exhausted after 2 attempts: boom"}},
		"made by asynq.NewTask, with its own limit": {asynq.NewTask("mail", nil, asynq.MaxRetry(0)), errBoom,
			letter{retry.ReasonExhausted, 1, "retry: attempts exhausted after 1 attempt: boom"}},
		"SkipRetry": {retryasynq.NewTask("mail", nil), fmt.Errorf("%w: %w", errBoom, asynq.SkipRetry),
			letter{retry.ReasonPermanent, 1, "retry: permanent error after 1 attempt: boom: skip retry for the task"}},
		"RevokeTask": {retryasynq.NewTask("mail", nil), fmt.Errorf("%w: %w", errBoom, asynq.RevokeTask), letter{}},
		"not UTF-8": {retryasynq.NewTask("mail", nil), errors.New("a\xff\xfe"),
			letter{retry.ReasonExhausted, 2, "retry: attempts exhausted after 2 attempts: a\uFFFD"}},
		"a header that is not a number": {asynq.NewTaskWithHeaders("mail", nil, map[string]string{"retry-max-attempts": "x"}), nil,
			letter{retry.ReasonPermanent, 1, `retry: permanent error after 1 attempt: header retry-max-attempts is "x": write a whole number of at least 1, or leave the header out`}},
		"a header that is not a time": {asynq.NewTaskWithHeaders("mail", nil, map[string]string{"retry-since": "x"}), nil,
			letter{retry.ReasonPermanent, 1, `retry: permanent error after 1 attempt: header retry-since: parsing time "x" as "2006-01-02T15:04:05.999999999Z07:00": cannot parse "x" as "2006"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, func(context.Context, *asynq.Task) error { return row.do })
			ended := s.end(row.task)
			if row.want == (letter{}) {
				assert.Nil(t, ended)
				return
			}
			d := s.letter(ended)
			assert.Equal(t, row.want, letter{d.Reason, d.Attempts, d.Err})
		})
	}
}

// MaxElapsed also ends a task whose header with the first time is missing or has a time in the
// future. In this case, the delays before an attempt count.
func TestMaxElapsedOfATaskWithoutABeginning(t *testing.T) {
	t.Parallel()
	for name, since := range map[string]string{
		"none": "", "zero": "0001-01-01T00:00:00Z", "in an hour": time.Now().Add(time.Hour).Format(time.RFC3339), "never": "9999-12-31T23:59:59Z",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, func(context.Context, *asynq.Task) error { return errBoom })
			require.NoError(t, s.retries.SetType("timed", retry.Policy{MaxElapsed: 3 * time.Second, Backoff: retry.Fixed(time.Second)}))
			headers := map[string]string{"retry-since": since}
			if since == "" {
				headers = nil
			}
			d := s.letter(s.end(asynq.NewTaskWithHeaders("timed", nil, headers, asynq.MaxRetry(math.MaxInt32))))
			assert.Equal(t, [...]any{retry.ReasonElapsed, 3}, [...]any{d.Reason, d.Attempts})
		})
	}
}

// If a task lacks the header with the first time, a decision is made fast, whatever the count of
// retries is.
func TestMaxElapsedOfAForgedCount(t *testing.T) {
	d := map[int]retry.Reason{}
	for _, retried := range []int{0, 3, 20_000, math.MaxInt32} {
		policy := retry.Policy{MaxElapsed: 1000 * time.Hour, MaxAttempts: retry.Unlimited, OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.CallFinished {
				d[retried] = e.Reason
			}
		}}
		retries, err := retryasynq.New(policy)
		require.NoError(t, err)
		_ = retries.Attempt(t.Context(), asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return errBoom }), asynq.NewTask("mail", nil), "7", retried, math.MaxInt32)
	}
	assert.Equal(t, map[int]retry.Reason{20_000: retry.ReasonElapsed, math.MaxInt32: retry.ReasonElapsed}, d)
}

// asynq keeps at most 8 KiB of the error of an attempt, as a dead letter does.
func TestALongError(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	s := newService(t, func(ctx context.Context, _ *asynq.Task) error {
		if n, _ := asynq.GetRetryCount(ctx); n > 0 {
			return retry.Permanent(errors.New(long))
		}
		return retry.After(2*time.Second, errors.New(long))
	})
	info, err := s.client.Enqueue(retryasynq.NewTask("mail", nil), asynq.Queue(s.name))
	require.NoError(t, err)
	assert.Equal(t, long[:8<<10], s.await(info.ID, asynq.TaskStateRetry).LastErr)
	archived := s.await(info.ID, asynq.TaskStateArchived)
	assert.Len(t, s.letter(archived).Err, 8<<10)
	assert.Less(t, len(archived.LastErr), 9<<10)
}

// A configuration that is prepared twice, or for each of two servers, keeps its own
// IsFailure.
func TestConfigureAgain(t *testing.T) {
	retries, err := retryasynq.New(retry.Default())
	require.NoError(t, err)
	a, b := asynq.Config{IsFailure: func(error) bool { return false }}, asynq.Config{IsFailure: func(error) bool { return true }}
	for _, config := range []*asynq.Config{&a, &a, &b} {
		retries.Configure(config)
	}
	assert.False(t, a.IsFailure(errBoom))
	assert.True(t, b.IsFailure(errBoom))
}

// A dead letter of a newer version may have a reason that this version does not know. Other
// middleware may have wrapped the error.
func TestDeadLetterOf(t *testing.T) {
	letter, err := json.Marshal(retryjob.DeadLetter{Reason: "too_tired", Attempts: 4, Err: "boom"})
	require.NoError(t, err)
	for text, want := range map[string]string{
		`{"reason": "too_tired", "attempts": 4, "err": "boom", "moon": "full"}`: "",
		"worker {7}: " + string(letter) + " (logged)":                           "",
		`boom`:            "invalid character",
		`null`:            `the key "reason" is missing`,
		`{"attempts": 4}`: `the key "reason" is missing`,
	} {
		d, err := retryasynq.DeadLetterOf(&asynq.TaskInfo{ID: "a", LastErr: text})
		if want == "" {
			require.NoError(t, err, text)
			assert.Equal(t, [...]any{retry.Reason("too_tired"), 4, "boom"}, [...]any{d.Reason, d.Attempts, d.Err}, text)
			continue
		}
		assert.ErrorContains(t, err, fmt.Sprintf("retryasynq: last error %q of task a is not a dead letter: ", text))
		assert.ErrorContains(t, err, want)
		assert.Zero(t, d)
	}
}

// If IsFailure rejects an error, the task runs again with the same number, even in the last
// attempt.
func TestIsFailure(t *testing.T) {
	t.Parallel()
	script := []error{&notReadyError{}, &notReadyError{}, &notReadyError{}, errBoom, &notReadyError{}, errBoom}
	var retried []int // the count in each run; runs do not overlap
	s := newService(t, func(ctx context.Context, _ *asynq.Task) error {
		n, _ := asynq.GetRetryCount(ctx)
		retried = append(retried, n)
		return script[len(retried)-1]
	})
	d := s.letter(s.end(retryasynq.NewTask("mail", nil)))
	s.stop()
	assert.Equal(t, []any{retry.ReasonExhausted, 2, "retry: attempts exhausted after 2 attempts: boom"}, []any{d.Reason, d.Attempts, d.Err})
	assert.Equal(t, []int{0, 0, 0, 0, 1, 1}, retried)
}

// Without the context of asynq's server, the attempt is the first and the last. If several
// limits end the task, the reason names the attempts before Retry-After and MaxElapsed.
func TestLimitsOfATaskThatIsNotReady(t *testing.T) {
	notReady := error(&notReadyError{})
	policy := retry.Policy{MaxAttempts: 1, Backoff: retry.Fixed(2 * time.Second)}
	with := func(change func(*retry.Policy)) retry.Policy { p := policy; change(&p); return p }
	for name, row := range map[string]struct {
		policy retry.Policy
		err    error
		want   retry.Reason // "" if the task is not stopped
	}{
		"nothing":       {policy, notReady, ""},
		"AttemptCap":    {with(func(p *retry.Policy) { p.AttemptCap = 1 }), notReady, ""},
		"a failure":     {policy, errBoom, retry.ReasonExhausted},
		"NonRetryable":  {with(func(p *retry.Policy) { p.NonRetryable = true }), notReady, retry.ReasonNonRetryable},
		"SkipRetry":     {policy, fmt.Errorf("%w: %w", notReady, asynq.SkipRetry), retry.ReasonPermanent},
		"RetryIf":       {with(func(p *retry.Policy) { p.RetryIf = func(error) bool { return false } }), notReady, retry.ReasonRejected},
		"MaxRetryAfter": {policy, retry.After(25*time.Hour, notReady), retry.ReasonExhausted},
		"MaxElapsed":    {with(func(p *retry.Policy) { p.MaxElapsed = time.Second }), notReady, retry.ReasonExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stopped retry.Reason
				row.policy.OnEvent = func(_ context.Context, e retry.Event) {
					if e.Kind == retry.CallFinished {
						stopped = e.Reason
					}
				}
				retries, err := retryasynq.New(row.policy)
				require.NoError(t, err)
				config := asynq.Config{IsFailure: func(err error) bool { return !strings.Contains(err.Error(), "not ready") }}
				retries.Configure(&config)
				task := retryasynq.NewTask("mail", nil)
				err = retries.Middleware(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return row.err })).ProcessTask(t.Context(), task)
				if row.want != "" {
					assert.ErrorIs(t, err, asynq.SkipRetry)
					assert.Equal(t, row.want, stopped)
					return
				}
				assert.NotErrorIs(t, err, asynq.SkipRetry)
				assert.False(t, config.IsFailure(err))
				assert.Equal(t, 2*time.Second, config.RetryDelayFunc(0, err, task))
				assert.Equal(t, retry.ReasonCanceled, stopped)
			})
		})
	}
}

func TestAPanic(t *testing.T) {
	t.Parallel()
	s := newService(t, func(context.Context, *asynq.Task) error { panic("at the disco") })
	assert.Equal(t, "retry: attempts exhausted after 2 attempts: the attempt panicked: at the disco", s.letter(s.end(retryasynq.NewTask("mail", nil))).Err)
	s.stop()
	assert.Equal(t, 2, strings.Count(s.logged.String(), "retryasynq: task type mail: the attempt panicked: at the disco\n"))
	assert.Contains(t, s.logged.String(), "TestAPanic.func1", "the stack is logged")
}

func TestAPanicWithoutALogger(t *testing.T) {
	var logged strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	retries, err := retryasynq.New(retry.Default())
	require.NoError(t, err)
	handler := retries.Middleware(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { panic("at the disco") }))
	assert.ErrorContains(t, handler.ProcessTask(t.Context(), asynq.NewTask("mail", nil)), "the attempt panicked: at the disco")
	assert.Contains(t, logged.String(), "retryasynq: task type mail: the attempt panicked: at the disco")
}

// After asynq's own timeout, asynq does not wait for the handler.
func TestAsynqsTimeout(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var began []time.Time
	s := newService(t, func(ctx context.Context, _ *asynq.Task) error {
		mu.Lock()
		began = append(began, time.Now())
		mu.Unlock()
		<-ctx.Done()
		return ctx.Err()
	})
	d := s.letter(s.end(retryasynq.NewTask("mail", nil), asynq.Timeout(time.Second)))
	assert.Equal(t, retry.ReasonExhausted, d.Reason)
	assert.Equal(t, 2, d.Attempts)
	// On a busy machine the timeout may pass before asynq calls the handler. Then asynq counts an
	// attempt.
	assert.NotEmpty(t, began)
	assert.LessOrEqual(t, len(began), 2)
}

// An operator may run an archived task again, and archive a task that waits for a retry.
func TestOperators(t *testing.T) {
	t.Parallel()
	const again = "again"
	runs := 0 // how often the task that runs again has run; runs do not overlap
	s := newService(t, func(_ context.Context, task *asynq.Task) error {
		if string(task.Payload()) != again {
			return retry.After(time.Minute, errBoom)
		}
		if runs++; runs > 2 {
			return nil
		}
		return errBoom
	})
	dead := s.end(retryasynq.NewTask("mail", []byte(again)))
	require.NoError(t, s.inspector.RunTask(s.name, dead.ID))
	require.Eventually(t, func() bool {
		_, err := s.inspector.GetTaskInfo(s.name, dead.ID)
		return errors.Is(err, asynq.ErrTaskNotFound)
	}, 10*time.Second, 20*time.Millisecond)
	assert.Equal(t, 3, runs)

	waits, err := s.client.Enqueue(retryasynq.NewTask("mail", nil), asynq.Queue(s.name))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		waits, err = s.inspector.GetTaskInfo(s.name, waits.ID)
		require.NoError(t, err)
		return waits.State == asynq.TaskStateRetry
	}, 10*time.Second, 20*time.Millisecond)
	require.NoError(t, s.inspector.ArchiveTask(s.name, waits.ID))
	waits, err = s.inspector.GetTaskInfo(s.name, waits.ID)
	require.NoError(t, err)
	assert.Equal(t, "boom", waits.LastErr, "the error of an attempt that is retried is what the handler returned")
	_, err = retryasynq.DeadLetterOf(waits)
	assert.ErrorContains(t, err, `retryasynq: last error "boom" of task `+waits.ID+" is not a dead letter")
}

func TestNewTask(t *testing.T) {
	t.Parallel()
	q := open(address(t), fmt.Sprintf("retryasynq_%d", time.Now().UnixNano()))
	t.Cleanup(func() { assert.NoError(t, q.Close(t.Context(), true)) })
	at := time.Now().Add(time.Hour).UTC()
	for name, row := range map[string]struct {
		opts     []asynq.Option
		maxRetry int
		limit    string
		since    time.Time
		timeout  time.Duration
	}{
		"nothing":      {nil, math.MaxInt32, "", time.Now(), math.MaxInt64 / time.Second * time.Second},
		"a limit":      {[]asynq.Option{asynq.MaxRetry(4)}, 5, "5", time.Now(), math.MaxInt64 / time.Second * time.Second},
		"two limits":   {[]asynq.Option{asynq.MaxRetry(9), asynq.MaxRetry(4)}, 5, "5", time.Now(), math.MaxInt64 / time.Second * time.Second},
		"no retry":     {[]asynq.Option{asynq.MaxRetry(-1)}, 1, "1", time.Now(), math.MaxInt64 / time.Second * time.Second},
		"ProcessAt":    {[]asynq.Option{asynq.ProcessAt(at)}, math.MaxInt32, "", at, math.MaxInt64 / time.Second * time.Second},
		"ProcessIn":    {[]asynq.Option{asynq.ProcessIn(time.Hour)}, math.MaxInt32, "", at, math.MaxInt64 / time.Second * time.Second},
		"a timeout":    {[]asynq.Option{asynq.Timeout(time.Minute)}, math.MaxInt32, "", time.Now(), time.Minute},
		"other values": {[]asynq.Option{asynq.Retention(time.Hour), asynq.Unique(time.Hour)}, math.MaxInt32, "", time.Now(), math.MaxInt64 / time.Second * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			task := retryasynq.NewTask("mail", []byte("x"), row.opts...)
			assert.Equal(t, "mail", task.Type())
			assert.Equal(t, []byte("x"), task.Payload())
			info, err := q.client.Enqueue(task, asynq.Queue(q.name))
			require.NoError(t, err)
			assert.Equal(t, row.maxRetry, info.MaxRetry)
			assert.Equal(t, row.limit, info.Headers["retry-max-attempts"])
			assert.Equal(t, row.timeout, info.Timeout)
			since, err := time.Parse(time.RFC3339Nano, info.Headers["retry-since"])
			require.NoError(t, err)
			assert.WithinDuration(t, row.since, since, time.Minute)
		})
	}
}

// If a worker is gone, or asynq does not wait for its handler, asynq does not know the delay of the
// attempt. Then the task waits for the longest possible delay, rounded up to the next full second.
func TestTheDelayWithoutADecision(t *testing.T) {
	retries, err := retryasynq.New(retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(1500 * time.Millisecond), Jitter: retry.Proportional(0.5)})
	require.NoError(t, err)
	require.NoError(t, retries.SetType("at once", retry.Policy{MaxAttempts: 3}))
	require.NoError(t, retries.SetType("long", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(math.MaxInt64), MaxDelay: math.MaxInt64}))
	var config asynq.Config
	retries.Configure(&config)
	task := asynq.NewTask("mail", nil)
	limited := retryasynq.NewTask("mail", nil, asynq.MaxRetry(0))
	for name, row := range map[string]struct {
		at   time.Duration // the time since a full second
		n    int
		task *asynq.Task
		want time.Duration
	}{
		"at a full second":                                {0, 0, task, 3 * time.Second}, // the longest is 2.25 s
		"just after a full second":                        {1, 0, task, 3*time.Second - 1},
		"the longest delay ends at a full second":         {750 * time.Millisecond, 0, task, 2250 * time.Millisecond},
		"the longest delay ends just after a full second": {750*time.Millisecond + 1, 0, task, 3250*time.Millisecond - 1},
		"the last retry":                                  {0, 1, task, 3 * time.Second},
		"used up":                                         {1, 2, task, 0},
		"the task's own limit":                            {1, 0, limited, 0},
		"no delay":                                        {1, 0, asynq.NewTask("at once", nil), 0},
		"no end":                                          {0, 0, asynq.NewTask("long", nil), math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Second + row.at)
				assert.Equal(t, row.want, config.RetryDelayFunc(row.n, asynq.ErrLeaseExpired, row.task))
			})
		})
	}
}
