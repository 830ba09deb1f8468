package retryrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/goretry/retry"
)

// A Conn is one attempt of a stream. Send returns io.EOF if the stream is broken. Receive then
// returns the error that broke the stream. Receive returns io.EOF if the stream ends without an
// error. The errors of Send and Receive may wrap io.EOF. One goroutine may call Send while another
// calls Receive.
type Conn interface {
	Send(m any) error
	CloseSend() error
	Receive(m any) error
	Failure(err error) Failure // describes an error of Receive
}

// A Stream makes attempts until the first message arrives. Open starts the first attempt. The
// first call of Receive finishes this attempt and makes all further attempts. A Stream keeps up
// to 256 KiB of the messages that were sent, and sends them again in each attempt. If the
// caller has sent more than 256 KiB, there is no further attempt.
//
// Set the fields, and call Open first. Then one goroutine may call Send and CloseSend while
// another calls Receive.
type Stream struct {
	// Ctx is the caller's context.
	Ctx context.Context

	// Policy and Target are the policy and the Target of the call, as in Do.
	Policy retry.Policy
	Target Target

	// Dial starts the attempt with the given number. The parameter `previous` is the attempt before
	// this attempt. It is nil for the first attempt. It is also nil if Dial returned no Conn for the
	// attempt before this attempt.
	Dial func(ctx context.Context, number int, previous Conn) (Conn, Failure)

	// Size returns how many bytes a message has. If the result `known` is false, the size is not
	// known, and there is no further attempt.
	Size func(m any) (bytes int, known bool)

	// Coded turns the error of a context into an error of the RPC library, as in Do.
	Coded func(error) error

	// OneReply means that the caller receives only one message. In this case the Stream is closed once
	// the first message has arrived.
	OneReply bool

	refused  error // the error that Enter returned for the first attempt, or nil
	received bool  // whether Receive has been called
	over     error // the error that Receive returns from now on, or nil while the stream goes on

	mu      sync.Mutex // guards the fields below, because sending and receiving may overlap
	conn    Conn       // the last attempt, or nil if Dial failed
	failure Failure    // why Dial failed
	sent    []any      // the messages so far, which the next attempt sends again
	size    int        // the size of the messages in `sent`, in bytes
	closed  bool       // whether CloseSend was called
	final   string     // why there can be no further attempt, or "" if there can be one

	// ctx is the context of the last attempt, and lasts until the stream ends. The Stream creates it
	// from Ctx, because the context that Do passes to an attempt already ends when the first message
	// has arrived.
	ctx    context.Context
	cancel context.CancelCauseFunc // cancels ctx
}

// maxReplay is how many bytes of messages a Stream keeps for its next attempt. gRPC's own
// retries have the same limit by default.
const maxReplay = 256 << 10

// Open starts the first attempt, if the policy's Enter allows this. If Enter or Dial fails,
// Receive returns the error.
func (s *Stream) Open() {
	if s.Policy.Enter != nil && s.Ctx.Err() == nil {
		s.refused = s.Policy.Enter(s.Ctx, retry.Event{
			Kind: retry.AttemptStarted, Time: time.Now(), Attempt: 1,
			Max: s.Policy.EffectiveMax(), Decision: retry.Decision{Number: 1},
		})
	}
	ctx, cancel := s.timeout()
	defer cancel()
	s.begin(ctx, 1)
}

// timeout returns a context that ends after AttemptTimeout. Without an AttemptTimeout, it
// returns s.Ctx.
func (s *Stream) timeout() (context.Context, context.CancelFunc) {
	if s.Policy.AttemptTimeout > 0 {
		return context.WithTimeout(s.Ctx, s.Policy.AttemptTimeout)
	}
	return s.Ctx, func() {}
}

// begin starts an attempt and sends the kept messages again. If ctx ends meanwhile, `begin`
// cancels the attempt.
func (s *Stream) begin(ctx context.Context, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx, s.cancel = context.WithCancelCause(s.Ctx)
	defer s.endWith(ctx)()

	if s.refused != nil {
		s.cancel(s.refused)
	}
	s.conn, s.failure = s.Dial(s.ctx, number, s.conn)
	if s.conn == nil {
		return
	}
	for _, m := range s.sent {
		if s.conn.Send(m) != nil {
			return // Receive returns the reason why the attempt is broken
		}
	}
	if s.closed {
		s.conn.CloseSend() // if CloseSend fails, Receive returns the error
	}
}

// endWith cancels the last attempt if ctx ends before the caller calls the returned function
// `stop`.
func (s *Stream) endWith(ctx context.Context) (stop func() bool) {
	cancel := s.cancel
	return context.AfterFunc(ctx, func() { cancel(timeoutError(s.Policy.AttemptTimeout)) })
}

// Receive makes attempts until the first message arrives. Later calls receive from the attempt
// that delivered this message.
func (s *Stream) Receive(m any) error {
	switch {
	case s.over != nil:
	case s.received:
		s.over = s.conn.Receive(m)
	default:
		s.received = true
		s.over = s.receiveFirst(m)
	}
	if s.over != nil || s.OneReply {
		s.Close()
	}
	return s.over
}

// receiveFirst makes attempts until the first message arrives. If the stream ends without a
// message and without an error, receiveFirst returns an error that wraps io.EOF.
func (s *Stream) receiveFirst(m any) error {
	var last Failure
	var eof error
	p := s.Policy
	if p.Enter != nil {
		p.Enter = func(ctx context.Context, e retry.Event) error {
			if e.Attempt == 1 {
				return s.refused // Open has already called Enter for the first attempt
			}
			return s.Policy.Enter(ctx, e)
		}
	}
	err := Do(s.Ctx, p, s.Target, func(ctx context.Context, number int) Failure {
		if number > 1 {
			if _, final := s.Conn(); final != "" { // the method Final was called in the wait
				return Failure{Err: last.Err, Final: final, Unsent: true}
			}
			s.begin(ctx, number)
		}
		if last, eof = s.receive(ctx, m); last.Err != nil {
			s.cancel(nil)
			_, final := s.Conn()
			last.Final = cmp.Or(last.Final, final)
		}
		return last
	}, s.Coded)
	s.Final("the first message has been received")
	return cmp.Or(err, eof)
}

// receive waits for the first message of the last attempt. If ctx ends before the message
// arrives, `receive` cancels the attempt.
func (s *Stream) receive(ctx context.Context, m any) (f Failure, eof error) {
	f = s.failure
	if s.conn != nil {
		stop := s.endWith(ctx)
		err := s.conn.Receive(m)
		stop()
		switch {
		case errors.Is(err, io.EOF):
			return Failure{}, err
		case err != nil:
			f = s.conn.Failure(err)
		}
	}
	// If AttemptTimeout has canceled s.ctx, the attempt counts as failed, even if its first
	// message has arrived: no other message could follow.
	if timeout, ok := context.Cause(s.ctx).(timeoutError); ok && !Ended(s.Ctx) {
		f = Failure{Err: s.Coded(timeout), Code: deadlineExceeded}
	}
	return f, nil
}

// Send sends m, and keeps it for later attempts.
func (s *Stream) Send(m any) error {
	s.mu.Lock()
	kept := s.keep(m)
	conn, attempt := s.conn, s.ctx
	if kept {
		ctx, cancel := s.timeout()
		defer cancel()
		defer s.endWith(ctx)()
	}
	s.mu.Unlock()

	// If there is no attempt, Send returns io.EOF, as a Conn does for a broken stream. Receive then
	// returns the reason.
	err := io.EOF
	if conn != nil {
		err = conn.Send(m)
	}
	if kept && (errors.Is(err, io.EOF) || attempt.Err() != nil) {
		return nil // Receive makes an attempt that sends m again, or says why no attempt follows
	}
	return err
}

// keep keeps a message for later attempts, and reports whether a later attempt may follow. The
// caller holds mu.
func (s *Stream) keep(m any) bool {
	if s.final != "" {
		return false
	}
	s.sent = append(s.sent, m)
	size, known := s.Size(m)
	if s.size += size; !known {
		s.end(fmt.Sprintf("a %T was sent, whose size is not known", m))
	} else if s.size > maxReplay {
		s.end(fmt.Sprintf("more than %d KiB were sent", maxReplay>>10))
	}
	return s.final == ""
}

// CloseSend closes the sending side of this attempt and of all later attempts.
func (s *Stream) CloseSend() error {
	s.mu.Lock()
	s.closed = true
	conn := s.conn
	s.mu.Unlock()
	if conn == nil {
		return nil
	}
	return conn.CloseSend()
}

// Final forbids further attempts. The parameter `reason` says why there is no further attempt. It
// becomes a part of the text of the call's error.
func (s *Stream) Final(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(reason)
}

func (s *Stream) end(reason string) { s.final, s.sent = reason, nil }

// Conn returns the last attempt, or nil if there is none. The result `final` says why there can be
// no further attempt. It is "" if there can be a further attempt.
func (s *Stream) Conn() (conn Conn, final string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn, s.final
}

// Close cancels the last attempt. Call it after Open.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel(nil)
}
