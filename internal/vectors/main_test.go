package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// promised is the hash of testdata/vectors.json. A change of one byte in that file is a
// breaking change (docs/compatibility.md), because users have stored times that were computed
// in the same way.
const promised = "3ba9ac931bfd3e9ee6c4a134e1a73abfa6f96b8a18026ce18f7d970293e53ecd"

func stored(t *testing.T) []byte {
	data, err := os.ReadFile("../../testdata/vectors.json")
	require.NoError(t, err)
	return bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
}

func TestVectorsAreUnchanged(t *testing.T) {
	assert.Equal(t, promised, fmt.Sprintf("%x", sha256.Sum256(stored(t))),
		"docs/compatibility.md promises that testdata/vectors.json does not change")
}

func TestLibraryMakesTheDecisionsOfTheVectors(t *testing.T) {
	var got bytes.Buffer
	require.NoError(t, write(&got))
	want := stored(t)
	require.LessOrEqual(t, len(want), 1_000_000)
	if bytes.Equal(want, got.Bytes()) {
		return
	}
	wants, gots := bytes.Split(want, []byte("\n")), bytes.Split(got.Bytes(), []byte("\n"))
	require.Len(t, gots, len(wants))
	for i := range wants {
		require.Equal(t, string(wants[i]), string(gots[i]), "line %d", i+1)
	}
}
