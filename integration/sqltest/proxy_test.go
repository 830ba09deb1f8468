package sqltest

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A cut says when the proxy cuts a connection. The proxy cuts once: when it reads these words from the
// client, or after the server has answered them and before the client gets the answer.
type cut struct {
	at          string // in capitals, because the proxy compares in capitals
	afterAnswer bool
}

// A proxy forwards connections and makes its cut.
type proxy struct {
	*net.TCPAddr
	cut  cut
	done atomic.Bool // the proxy has cut the connection
}

// arm makes the proxy cut once more.
func (p *proxy) arm() { p.done.Store(false) }

// startProxy starts a proxy that runs until the test ends. The proxy looks for the words in each read
// separately. This is enough, because a client writes a statement at once, and the statement fits
// into the buffer.
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
			wg.Go(func() { l.pipe(l.client, l.server, l.request) })
			wg.Go(func() { l.pipe(l.server, l.client, func([]byte) bool { return !l.withhold.Load() }) })
		}
	})
	return p
}

type link struct {
	client, server net.Conn
	proxy          *proxy
	withhold       atomic.Bool // withholds the next answer
}

// request reports whether to pass a request on.
func (l *link) request(data []byte) bool {
	if bytes.Contains(bytes.ToUpper(data), []byte(l.proxy.cut.at)) && l.proxy.done.CompareAndSwap(false, true) {
		l.withhold.Store(true)
		return l.proxy.cut.afterAnswer
	}
	return true
}

// pipe passes on the data that it reads. When it must not pass data on, it closes both ends.
func (l *link) pipe(from, to net.Conn, pass func([]byte) bool) {
	defer l.client.Close()
	defer l.server.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || !pass(buffer[:n]) {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
