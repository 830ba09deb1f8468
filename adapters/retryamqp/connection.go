package retryamqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A link is a connection whose socket can be closed at any time, because nobody else uses the
// connection. During an alarm, RabbitMQ does not read from a connection that has published, and the
// AMQP client waits for the server's answers without a time limit. Closing the socket ends these
// waits and their goroutines.
type link struct {
	*amqp.Connection
	socket net.Conn
	why    atomic.Pointer[error] // the reason for closing the socket; nil as long as it is open
}

var errRecovers = errors.New("Config.Recovery is set, but a message that was delivered before " +
	"a recovery cannot be acknowledged after the recovery: leave Config.Recovery nil, and call " +
	"Consume again after an error")

// The method `connect` opens a connection. If ctx is done before the connection is open, `connect`
// soon returns an error.
func (r *Retries) connect(ctx context.Context) (*link, error) {
	if r.Config.Recovery != nil {
		return nil, errRecovers
	}
	l := &link{}
	guard := func() bool { return true }
	config := r.Config
	config.Properties = maps.Clone(config.Properties) // the AMQP client writes to the map
	config.Dial = func(network, address string) (net.Conn, error) {
		conn, err := r.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l.socket = socket{conn}
		guard = context.AfterFunc(ctx, func() { l.cut(context.Cause(ctx)) })
		return l.socket, nil
	}
	var err error
	l.Connection, err = amqp.DialConfig(r.url, config)
	if !guard() || ctx.Err() != nil {
		if err == nil {
			l.end()
		}
		return nil, context.Cause(ctx)
	}
	return l, err
}

// The method `dial` connects with Config.Dial. If Config.Dial is nil, `dial` connects as the AMQP
// client does by default, and also returns when ctx is done.
func (r *Retries) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if r.Config.Dial != nil {
		return r.Config.Dial(network, address)
	}
	timeout := cmp.Or(time.Duration(r.uri.ConnectionTimeout)*time.Millisecond, 30*time.Second)
	dialer := net.Dialer{Timeout: timeout}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	// The deadline limits the AMQP handshake. The AMQP client removes the deadline afterwards.
	return conn, conn.SetDeadline(time.Now().Add(timeout))
}

// A socket closes itself when a read fails. A write can block because the server does not read.
// While a write blocks, the AMQP client does not notice that the heartbeats of the server are
// missing. Closing the socket ends the write.
type socket struct{ net.Conn }

func (s socket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if err != nil {
		_ = s.Close()
	}
	return n, err
}

// `until` runs f. If ctx is done before f returns, `until` closes the socket, so that f fails.
func (l *link) until(ctx context.Context, f func() error) error {
	stop := context.AfterFunc(ctx, func() { l.cut(context.Cause(ctx)) })
	defer stop()
	err := f()
	if why := l.why.Load(); err != nil && why != nil {
		return *why
	}
	return err
}

// `cut` closes the socket, and stores the reason. If `cut` is called several times, it keeps the
// first reason.
func (l *link) cut(why error) {
	l.why.CompareAndSwap(nil, &why)
	_ = l.socket.Close()
}

// isCut reports whether `cut` was called. The AMQP client may not have noticed yet that the
// socket is closed.
func (l *link) isCut() bool { return l.why.Load() != nil }

// `end` closes the connection. If the server has not answered after a second, `end` closes the
// socket.
func (l *link) end() {
	cut := time.AfterFunc(time.Second, func() { _ = l.socket.Close() })
	defer cut.Stop()
	_ = l.Close()
}

// The function `lasting` returns a context that is done when ctx has been done for the grace
// period. During the grace period, the server can still confirm a copy. Without the confirmation,
// the message would be copied a second time.
func lasting(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(grace):
			cancel(fmt.Errorf("the server has not answered for %v after the end of the context; "+
				"it answers no publisher during a memory or disk alarm", grace))
		case <-lasting.Done():
		}
	})
	return lasting, func() {
		stop()
		cancel(nil)
	}
}
