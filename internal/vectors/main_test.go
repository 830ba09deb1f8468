package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// promised is the hash of testdata/vectors.json. A change of one byte of it is a
// breaking change (docs/compatibility.md): users have stored times that were
// computed so, and others have written it again in their languages.
const promised = "54c5a8063fa2c96a61c90d4fbddd7c3bab84cdebebde64d686a0d7ab2c217147"

func stored(t *testing.T) []byte {
	data, err := os.ReadFile("../../testdata/vectors.json")
	require.NoError(t, err)
	return bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
}

func TestVectorsAreAsPromised(t *testing.T) {
	assert.Equal(t, promised, fmt.Sprintf("%x", sha256.Sum256(stored(t))),
		"docs/compatibility.md promises that testdata/vectors.json does not change")
}

func TestTheLibraryDecidesAsTheVectorsSay(t *testing.T) {
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

// The example of docs/vectors.md is right, and so is what it says of the reader.
func TestThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/vectors.md")
	require.NoError(t, err)
	reader, err := os.ReadFile("../../docs/vectors.py")
	require.NoError(t, err)
	assert.Contains(t, string(page), fmt.Sprintf("in %d lines of Python", bytes.Count(reader, []byte("\n"))))
	assert.Less(t, bytes.Count(reader, []byte("\n")), 170)

	_, example, _ := bytes.Cut(page, []byte("```json\n"))
	example, _, _ = bytes.Cut(example, []byte("```"))
	var want vector
	require.NoError(t, json.Unmarshal(example, &want))
	seed, err := strconv.ParseUint(want.Seed, 10, 64)
	require.NoError(t, err)
	got := want.Policy.Next(retry.Attempt{Number: want.Attempt, Seed: seed})
	assert.Equal(t, []any{want.Reason, want.Delay, want.Lo, want.Hi}, []any{got.Reason, got.Delay, got.Lo, got.Hi})
}

// The vectors have every kind of what a policy can say and of what is decided.
func TestVectorsHaveEveryKind(t *testing.T) {
	var vectors []vector
	require.NoError(t, json.Unmarshal(stored(t), &vectors))
	kinds := map[any]int{}
	different := map[string]bool{}
	for _, v := range vectors {
		p := v.Policy
		text, err := json.Marshal(p)
		require.NoError(t, err)
		different[string(text)] = true
		jitter, _ := p.Jitter.(retry.Spread)
		for _, kind := range []any{
			v.Reason, fmt.Sprintf("curve %T", p.Backoff), fmt.Sprintf("jitter %T", p.Jitter), jitter,
			[2]any{"attempts", p.MaxAttempts > 0}, [2]any{"retries", p.MaxRetries > 0}, [2]any{"cap", p.AttemptCap > 0},
			[2]any{"unlimited", p.EffectiveMax() == retry.Unlimited}, [2]any{"at most", p.MaxDelay > 0}, [2]any{"within", p.MaxElapsed > 0},
			[2]any{"Retry-After", v.RetryAfter > 0}, [2]any{"its limit", p.MaxRetryAfter > 0}, [2]any{"exactly", p.RetryAfter == retry.RetryAfterExact && v.RetryAfter > 0},
			[2]any{"at least", p.RetryAfter == retry.RetryAfterAtLeast && v.RetryAfter > 0}, [2]any{"class", v.Class != nil},
			[2]any{"a Retry-After that is too short", v.RetryAfter > 0 && v.RetryAfter < 10*time.Millisecond},
			[2]any{"class with a curve", v.Class != nil && v.Class.Sets.Backoff != nil}, [2]any{"least wait", v.Hi == 10*time.Millisecond},
			[2]any{"key", v.Key != ""}, [2]any{"at the cap", p.MaxDelay > 0 && v.Lo < v.Hi && v.Hi == p.MaxDelay},
			[2]any{"longest", v.Hi == math.MaxInt64}, [2]any{"beyond a float", v.Delay > 1<<53 && v.Lo < v.Hi},
		} {
			kinds[kind]++
		}
	}
	assert.Equal(t, policies, len(different))
	assert.Len(t, kinds, 5+6+3+3+2*18)
	for kind, n := range kinds {
		assert.GreaterOrEqual(t, n, 3, kind)
	}
}
