//go:build unix

package servers_test

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/internal/servers"
)

func TestServers(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *servers.Server{
		"Redis":      servers.Redis,
		"NATS":       func(t testing.TB) *servers.Server { return servers.NATS(t, "") },
		"PostgreSQL": servers.Postgres,
		"RabbitMQ":   servers.RabbitMQ,
	} {
		t.Run(name, func(t *testing.T) {
			long := os.Getenv("RETRY_LONG") != ""
			if name == "RabbitMQ" && !long {
				t.Skip("it takes ten seconds to start; RETRY_LONG=1 runs this")
			}
			t.Parallel() // most of the time is spent in waiting for servers
			s, another := start(t), start
			if name == "PostgreSQL" && !long {
				another = servers.Redis // a second one takes a second more
			}
			other := another(t)
			assert.NotEqual(t, s.Address, other.Address)
			for _, end := range []func(){s.Stop, s.Crash} {
				require.NoError(t, dial(s.Address))
				end()
				require.Error(t, dial(s.Address))
				require.NoError(t, dial(other.Address))
				s.Start()
			}
		})
	}
}

func dial(address string) error {
	c, err := net.Dial("tcp", address)
	if err == nil {
		err = c.Close()
	}
	return err
}
