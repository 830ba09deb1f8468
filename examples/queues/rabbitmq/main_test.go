package main

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/examples/queues/mail"
	"github.com/goretry/retry/internal/servers"
)

func TestProgram(t *testing.T) {
	url, queue := servers.Shared(t, "RETRY_TEST_RABBITMQ"), "mail_"+rand.Text()
	defer remove(t, url, queue)
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, url, queue))
	assert.Equal(t, mail.Want, out.String())
}

// remove deletes the queues of the program, and those of all its possible delays.
func remove(t *testing.T, url, queue string) {
	conn, err := amqp.Dial(url)
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close()) }()
	channel, err := conn.Channel()
	require.NoError(t, err)
	names := []string{queue, queue + ".dead"}
	for ms := range 512 {
		names = append(names, fmt.Sprintf("%s.wait.%dms", queue, ms+1))
	}
	for _, name := range names {
		_, err := channel.QueueDelete(name, false, false, false)
		require.NoError(t, err)
	}
}
