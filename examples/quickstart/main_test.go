package main

import (
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each row checks what the program prints. The README shows the first row.
func TestProgram(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	open := listener.Addr().String()
	conn, err := net.Dial("tcp", open) // its local port is in use, so no other test can listen there
	require.NoError(t, err)
	defer conn.Close()
	for _, row := range []struct{ name, address, want string }{
		{"nothing listens", conn.LocalAddr().String(), "^attempts_exhausted\n" +
			`retry: attempts exhausted after 4 attempts \(\d+\.?\d*ms waited\): dial tcp 127\.0\.0\.1:\d+: connect: connection refused` + "\n$"},
		{"an invalid address", "127.0.0.1", "^permanent_error\nretry: permanent error after 1 attempt: .*missing port in address\n$"},
		{"a server listens", open, "^success\n<nil>\n$"},
	} {
		t.Run(row.name, func(t *testing.T) {
			stdout, usual := os.Stdout, address
			read, write, err := os.Pipe()
			require.NoError(t, err)
			os.Stdout, address = write, row.address
			synctest.Test(t, func(*testing.T) { main() })
			os.Stdout, address = stdout, usual
			require.NoError(t, write.Close())
			printed, err := io.ReadAll(read)
			require.NoError(t, err)
			assert.Regexp(t, row.want, string(printed))
		})
	}
	require.NoError(t, listener.Close())
}
