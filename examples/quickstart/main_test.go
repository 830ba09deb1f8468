package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retryhttp/httpfault"
)

// What the program prints, which the README shows of the first of these.
func TestProgram(t *testing.T) {
	refused := httpfault.Before(&net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080},
		Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
	busy := httpfault.Status(503, 0)
	for _, row := range []struct {
		name   string
		faults []httpfault.Fault
		want   string
	}{
		{"nothing listens", []httpfault.Fault{refused, refused, refused, refused, refused}, "^attempts_exhausted\n" +
			`Get "http://127.0.0.1:8080/orders": retry: attempts exhausted after 5 attempts \([1-4]\.\d+s waited\): ` +
			"dial tcp 127.0.0.1:8080: connect: connection refused\n$"},
		{"a 503 that stays", []httpfault.Fault{busy, busy, busy, busy, busy},
			"^attempts_exhausted\nretry: attempts exhausted after 5 attempts .* 503 Service Unavailable\n$"},
		{"it comes back", []httpfault.Fault{refused, busy}, "^200 OK\n$"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := httpfault.New(answers{}, row.faults...)
				base, stdout := http.DefaultTransport, os.Stdout
				read, write, err := os.Pipe()
				require.NoError(t, err)
				http.DefaultTransport, os.Stdout = server, write
				main()
				http.DefaultTransport, os.Stdout = base, stdout
				require.NoError(t, write.Close())
				printed, err := io.ReadAll(read)
				require.NoError(t, err)
				assert.Regexp(t, row.want, string(printed))
				assert.Zero(t, server.Left())
			})
		})
	}
}

// answers is a server that is up.
type answers struct{}

func (answers) RoundTrip(req *http.Request) (*http.Response, error) {
	return httpfault.Status(http.StatusOK, 0)(req, nil)
}
