package sqltest

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A cut is when the proxy cuts a connection, once: as it reads from the client
// what has these words, or when the server has answered that, before the
// client has the answer.
type cut struct {
	at          string // in capitals; what is read is compared in capitals
	afterAnswer bool
}

// startProxy forwards connections until the test ends, and returns where it
// listens. One packet holds what is compared: a statement is shorter than a
// buffer and is written at once.
func startProxy(t *testing.T, c cut, network, address string) *net.TCPAddr {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		wg.Wait()
	})
	var done atomic.Bool // the cut is made
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(network, address)
			if err != nil {
				_ = client.Close()
				continue
			}
			l := &link{client: client, server: server, cut: c, done: &done}
			wg.Go(l.requests)
			wg.Go(l.answers)
		}
	})
	return listener.Addr().(*net.TCPAddr)
}

type link struct {
	client, server net.Conn
	cut            cut
	done           *atomic.Bool
	withhold       atomic.Bool // the next answer
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

func (l *link) requests() {
	defer l.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(buffer)
		if err != nil {
			return
		}
		if bytes.Contains(bytes.ToUpper(buffer[:n]), []byte(l.cut.at)) && l.done.CompareAndSwap(false, true) {
			if !l.cut.afterAnswer {
				return
			}
			l.withhold.Store(true)
		}
		if _, err := l.server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (l *link) answers() {
	defer l.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buffer)
		if err != nil || l.withhold.Load() {
			return
		}
		if _, err := l.client.Write(buffer[:n]); err != nil {
			return
		}
	}
}
