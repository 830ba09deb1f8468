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

// A link is a connection that nobody else uses, so it can be cut. During an alarm, RabbitMQ
// does not read a connection that has published, and the AMQP client waits for answers
// without end. Cutting the socket ends all these waits and their goroutines.
type link struct {
	*amqp.Connection
	socket net.Conn
	why    atomic.Pointer[error] // why the socket was cut; nil: it was not
}

var errRecovers = errors.New("Config.Recovery is set, but a message that was delivered before " +
	"a recovery cannot be acknowledged after it: leave it nil, and call again after an error")

// connect opens a connection, or returns soon after ctx is done.
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

// dial connects with Config.Dial. If that is nil, dial does what the AMQP client does by
// default, and also ends with ctx.
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
	// The deadline is for the handshake. The AMQP client clears it.
	return conn, conn.SetDeadline(time.Now().Add(timeout))
}

// A socket closes itself when a read fails. Without this, the AMQP client would not notice
// that its heartbeats have failed while it waits for a write that the server never reads.
type socket struct{ net.Conn }

func (s socket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if err != nil {
		_ = s.Close()
	}
	return n, err
}

// until runs f. When ctx is done, until cuts the connection, so that f returns.
func (l *link) until(ctx context.Context, f func() error) error {
	stop := context.AfterFunc(ctx, func() { l.cut(context.Cause(ctx)) })
	defer stop()
	err := f()
	if why := l.why.Load(); err != nil && why != nil {
		return *why
	}
	return err
}

// cut closes the socket, and stores why. If the socket was cut before, the first reason stays.
func (l *link) cut(why error) {
	l.why.CompareAndSwap(nil, &why)
	_ = l.socket.Close()
}

// isCut reports whether the socket was cut. The AMQP client may notice the cut later.
func (l *link) isCut() bool { return l.why.Load() != nil }

// end closes the connection. A server that does not read its connections gets a second.
func (l *link) end() {
	cut := time.AfterFunc(time.Second, func() { _ = l.socket.Close() })
	defer cut.Stop()
	_ = l.Close()
}

// lasting returns a context that is done this much later than ctx, so that a copy that the
// server is about to confirm is not made twice.
func lasting(ctx context.Context, longer time.Duration) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(longer):
			cancel(fmt.Errorf("the server has not answered for %v after the end of the context; "+
				"it answers no publisher during a memory or disk alarm", longer))
		case <-lasting.Done():
		}
	})
	return lasting, func() {
		stop()
		cancel(nil)
	}
}
