package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/examples/queues/mail"
	"github.com/goretry/retry/internal/servers"
)

func TestProgram(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, servers.Shared(t, "RETRY_TEST_NATS")))
	assert.Equal(t, mail.Want, out.String())
}
