package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPIEqualsAPITxt(t *testing.T) {
	stored, err := os.ReadFile("api.txt")
	require.NoError(t, err)
	var now strings.Builder
	write(&now, "../..")
	want, got := packages(string(stored)), packages(now.String())
	require.Greater(t, len(got), 10)
	for name := range want {
		assert.Contains(t, got, name)
	}
	for name, api := range got {
		assert.Equal(t, want[name], api,
			"%s: at the top of the repository, go run ./internal/api >internal/api/api.txt", name)
	}
}

// packages returns the API of each package by its path.
func packages(text string) map[string]string {
	found := map[string]string{}
	for part := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\npackage ") {
		name, api, _ := strings.Cut(part, "\n")
		found[name] = api
	}
	return found
}
