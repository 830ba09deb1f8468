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
const promised = "6f8e471a5311df6ec09cede09f381ed241d283127d06ece0f7c0a3bab392c7b2"

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
