package sqltest

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A cut says when the proxy cuts a connection, once: when it reads these words
// from the client, or when the server has answered them, before the client gets
// the answer.
type cut struct {
	at          string // in capitals; the data is compared in capitals
	afterAnswer bool
}

// A proxy forwards connections and makes its cut.
type proxy struct {
	*net.TCPAddr
	cut  cut
	done atomic.Bool // the cut has been made
}

// arm makes the proxy cut once more.
func (p *proxy) arm() { p.done.Store(false) }

// startProxy starts a proxy that runs until the test ends. It looks for the
// words in one read, because a statement is shorter than the buffer and is
// written at once.
func startProxy(t *testing.T, c cut, network, address string) *proxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		wg.Wait()
	})
	p := &proxy{TCPAddr: listener.Addr().(*net.TCPAddr), cut: c}
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
			l := &link{client: client, server: server, proxy: p}
			wg.Go(l.requests)
			wg.Go(l.answers)
		}
	})
	return p
}

type link struct {
	client, server net.Conn
	proxy          *proxy
	withhold       atomic.Bool // withholds the next answer
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
		if bytes.Contains(bytes.ToUpper(buffer[:n]), []byte(l.proxy.cut.at)) && l.proxy.done.CompareAndSwap(false, true) {
			if !l.proxy.cut.afterAnswer {
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
