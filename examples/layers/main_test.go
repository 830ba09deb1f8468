package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain is also the processes that the test starts.
func TestMain(m *testing.M) {
	if _, is := os.LookupEnv("LAYERS_BELOW"); is {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestLayers(t *testing.T) {
	var out bytes.Buffer
	run(&out)
	page, err := os.ReadFile("../../docs/budget.md")
	require.NoError(t, err)
	assert.Contains(t, string(page), "```\n"+out.String()+"```\n")
}
