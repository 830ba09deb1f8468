package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/goretry/retry"
)

// A Conn is one attempt of a stream. Send returns io.EOF where only Receive knows
// why the stream is broken, and Receive where it ends well, both as errors.Is
// sees it.
type Conn interface {
	Send(m any) error
	CloseSend() error
	Receive(m any) error
	Failure(err error) Failure // what an error of Receive is
}

// A Stream makes attempts until a first message is received. All of them are
// made by the first Receive, except that the first is opened by Open.
type Stream struct {
	// Ctx is the caller's.
	Ctx    context.Context
	Policy retry.Policy

	// Dial begins an attempt, after the one before it, which is nil for the
	// first or if there was no Conn.
	Dial  func(ctx context.Context, number int, before Conn) (Conn, Failure)
	Size  func(m any) (bytes int, known bool)
	Coded func(error) error // as for Do

	// OneReply says that Receive is called once.
	OneReply bool

	received bool  // Receive has made its attempts
	over     error // what Receive returns from now on; nil: it goes on

	mu      sync.Mutex              // guards what follows: one goroutine may send while another receives
	conn    Conn                    // of the last attempt; nil: there is none
	failure Failure                 // ... and why
	ctx     context.Context         // of the last attempt: not what the policy's loop has, which ends with the first message
	cancel  context.CancelCauseFunc // ends it
	sent    []any                   // so far, to be sent again
	size    int                     // ... in bytes
	closed  bool                    // CloseSend was called
	final   string                  // why no attempt may follow; "": one may
}

// maxReplay is how many bytes of messages are kept to send them again: the
// default of gRPC's own retries.
const maxReplay = 256 << 10

// Open opens the stream of the first attempt. Receive says what failed in it.
func (s *Stream) Open() {
	ctx, cancel := s.timeout()
	defer cancel()
	s.begin(ctx, 1)
}

// timeout returns a context that ends after AttemptTimeout, if there is one.
func (s *Stream) timeout() (context.Context, context.CancelFunc) {
	if s.Policy.AttemptTimeout > 0 {
		return context.WithTimeout(s.Ctx, s.Policy.AttemptTimeout)
	}
	return s.Ctx, func() {}
}

// begin opens the stream of an attempt, within ctx, and sends again what was
// sent.
func (s *Stream) begin(ctx context.Context, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx, s.cancel = context.WithCancelCause(s.Ctx)
	defer s.endWith(ctx)()

	s.conn, s.failure = s.Dial(s.ctx, number, s.conn)
	if s.conn == nil {
		return
	}
	for _, m := range s.sent {
		if s.conn.Send(m) != nil {
			return // Receive finds out why
		}
	}
	if s.closed {
		s.conn.CloseSend() // likewise
	}
}

// endWith ends the last attempt when ctx ends, until stop is called.
func (s *Stream) endWith(ctx context.Context) (stop func() bool) {
	cancel := s.cancel
	return context.AfterFunc(ctx, func() { cancel(timeoutError(s.Policy.AttemptTimeout)) })
}

// Receive makes attempts until the first message arrives, and from then on
// receives from the one that it came from.
func (s *Stream) Receive(m any) error {
	switch {
	case s.over != nil:
	case s.received:
		s.over = s.conn.Receive(m)
	default:
		s.received = true
		s.over = s.first(m)
	}
	if s.over != nil || s.OneReply {
		s.Close()
	}
	return s.over
}

// first receives the first message, in as many attempts as it takes. It returns
// what io.EOF is in if the stream ends well without one.
func (s *Stream) first(m any) error {
	var last Failure
	var eof error
	err := Do(s.Ctx, s.Policy, func(ctx context.Context, number int) Failure {
		if number > 1 {
			if last.Final = s.isFinal(); last.Final != "" { // since the attempt before failed
				return last
			}
			s.begin(ctx, number)
		}
		if last, eof = s.receive(ctx, m); last.Err != nil {
			s.cancel(nil)
			last.Final = cmp.Or(last.Final, s.isFinal())
		}
		return last
	}, s.Coded)
	s.Final("the first message has been received")
	return cmp.Or(err, eof)
}

// receive receives the first message of an attempt, within ctx.
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
	if timeout, ok := context.Cause(s.ctx).(timeoutError); ok && !Ended(s.Ctx) { // a message that has arrived would be the last
		f = Failure{Err: s.Coded(timeout), Code: deadlineExceeded}
	}
	return f, nil
}

// Send sends m, and keeps it to be sent again.
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

	err := io.EOF // Receive knows more
	if conn != nil {
		err = conn.Send(m)
	}
	if kept && (errors.Is(err, io.EOF) || attempt.Err() != nil) {
		return nil // Receive sends it again, or says why not
	}
	return err
}

// keep keeps a message to be sent again, and reports whether it did. The caller
// holds mu.
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

// CloseSend ends the sending of this attempt and of those that may follow.
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

// Final says that no attempt may follow, and why.
func (s *Stream) Final(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(why)
}

func (s *Stream) end(why string) { s.final, s.sent = why, nil }

func (s *Stream) isFinal() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.final
}

// Conn returns the last attempt, nil if there is none, and whether another may
// follow.
func (s *Stream) Conn() (conn Conn, final bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn, s.final != ""
}

// Close ends the last attempt.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel(nil)
}
