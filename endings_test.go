package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
)

// A line is what an attempt of a script does: it takes a time, or until its context is
// done, and fails.
type line struct {
	takes time.Duration
	hangs bool
	err   error // nil: what its context says
}

// A status is an error whose Is knows a timeout, as that of a client may be.
type status string

func (s status) Error() string        { return string(s) }
func (s status) Is(target error) bool { return target == context.DeadlineExceeded }

// play returns a function that does what a script says, and its last line again and
// again.
func play(script []line) func(context.Context) error {
	return func(ctx context.Context) error {
		l := script[0]
		script = script[min(1, len(script)-1):]
		if l.hangs {
			<-ctx.Done()
		}
		time.Sleep(l.takes)
		if l.err == nil {
			return ctx.Err()
		}
		return l.err
	}
}

// How calls end, as the one who reads the text in a log sees it: what failed, what
// failed before where that says more, why there is no further attempt, and whose time
// ran out.
func TestEndings(t *testing.T) {
	quota, eof := line{err: errors.New("403 quota exhausted")}, line{err: io.ErrUnexpectedEOF}
	hangs, busy := line{hangs: true}, line{err: errors.New("503 Service Unavailable")}
	get := func(err error) error { return &url.Error{Op: "Get", URL: "/x", Err: err} }
	second := retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Second)}
	impatient := with(second, func(p *retry.Policy) { p.AttemptTimeout = 2 * time.Second })
	inner := func(ctx context.Context) error { // instead of a script
		return fmt.Errorf("orders: %w", retry.Do(ctx, retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Minute)}, play([]line{busy})))
	}
	for _, row := range []struct {
		name   string
		policy retry.Policy
		ctx    func(context.Context) context.Context
		script []line
		want   string
	}{
		{"three 403, and then the deadline", second, endingIn(10*time.Second, nil), []line{quota, quota, quota, line{takes: 10 * time.Second, err: get(context.DeadlineExceeded)}},
			`deadline exceeded after 4 attempts (3s waited, context deadline exceeded): Get "/x": context deadline exceeded; before that: 403 quota exhausted`},
		{"each attempt runs out of its time", impatient, nil, []line{hangs},
			"attempts exhausted after 4 attempts (3s waited, attempt 4 ran out of its 2s): context deadline exceeded"},
		{"a 403, and then each attempt runs out of its time", impatient, nil, []line{quota, hangs},
			"attempts exhausted after 4 attempts (3s waited, attempt 4 ran out of its 2s): context deadline exceeded; before that: 403 quota exhausted"},
		{"a cut connection after a 403", second, nil, []line{quota, eof}, "attempts exhausted after 4 attempts (3s waited): unexpected EOF"},
		{"timeouts of the operation's own, after a cut connection", second, nil, []line{eof, line{err: os.ErrDeadlineExceeded}},
			"attempts exhausted after 4 attempts (3s waited): i/o timeout; before that: unexpected EOF"},
		{"the latest that said more", second, nil, []line{quota, eof, line{err: &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}}},
			"attempts exhausted after 4 attempts (3s waited): read tcp: i/o timeout; before that: unexpected EOF"},
		{"a shutdown while it waits", second, canceledIn(1500*time.Millisecond, errShutdown), []line{busy},
			"canceled after 2 attempts (1s waited, the next delay is 1s, context canceled: the server shuts down): 503 Service Unavailable"},
		{"a shutdown in an attempt, after a 503", second, canceledIn(1500*time.Millisecond, errShutdown), []line{busy, hangs},
			"canceled after 2 attempts (1s waited, context canceled: the server shuts down): context canceled; before that: 503 Service Unavailable"},
		{"an inner call that is canceled", second, canceledIn(30*time.Second, errShutdown), nil,
			"canceled after 1 attempt (context canceled: the server shuts down): orders: retry: canceled after 1 attempt " +
				"(the next delay is 1m0s, context canceled: the server shuts down): 503 Service Unavailable"},
		{"an inner call under AttemptTimeout", impatient, nil, nil,
			"attempts exhausted after 4 attempts (3s waited): orders: retry: deadline too close after 1 attempt (the next delay is 1m0s, 2s are left): 503 Service Unavailable"},
		{"a mere timeout that wraps more", second, nil, []line{quota, line{err: errors.Join(context.DeadlineExceeded, errBoom)}},
			"attempts exhausted after 4 attempts (3s waited): context deadline exceeded; boom"},
		{"a canceled call that something wraps", second, nil, []line{quota, line{err: fmt.Errorf("lost: %w", context.Canceled)}},
			"attempts exhausted after 4 attempts (3s waited): lost: context canceled; before that: 403 quota exhausted"},
		{"what is a timeout by its Is", second, nil, []line{quota, line{err: status("DeadlineExceeded")}},
			"attempts exhausted after 4 attempts (3s waited): DeadlineExceeded; before that: 403 quota exhausted"},
		{"a reason without a failure says more", second, nil, []line{quota, line{err: &retry.Error{Reason: "quota_of_the_tenant", Attempts: 1}}},
			"attempts exhausted after 4 attempts (3s waited): quota_of_the_tenant after 1 attempt"},
		{"a wait that ends after the deadline", second, endingIn(1500*time.Millisecond, nil), []line{quota, hangs},
			"deadline exceeded after 2 attempts (1s waited, context deadline exceeded): context deadline exceeded; before that: 403 quota exhausted"},
		{"an empty Budget after a timeout", second, func(ctx context.Context) context.Context { return retry.WithBudget(ctx, &retry.Budget{Size: 1}) }, []line{quota, line{err: os.ErrDeadlineExceeded}},
			"retry budget exhausted after 2 attempts (1s waited, a retry would have waited 1s): i/o timeout; before that: 403 quota exhausted"},
		{"what failed before a healthy attempt does not matter", with(second, func(p *retry.Policy) { p.HealthyAfter, p.MaxAttempts = time.Minute, 2 }), nil,
			[]line{quota, line{takes: time.Minute, err: os.ErrDeadlineExceeded}, line{err: os.ErrDeadlineExceeded}},
			"attempts exhausted after 3 attempts (2s waited, 2 from the last healthy one on): i/o timeout"},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			ctx := t.Context()
			if row.ctx != nil {
				ctx = row.ctx(ctx)
			}
			fn := inner
			if row.script != nil {
				fn = play(row.script)
			}
			assert.EqualError(t, call(ctx, row.policy, fn), "retry: "+row.want)
		})
	}
}
