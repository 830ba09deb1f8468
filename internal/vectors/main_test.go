package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// promised is the hash of testdata/vectors.json. A change of one byte of it is a
// breaking change (docs/compatibility.md): users have stored times that were
// computed so.
const promised = "3ba9ac931bfd3e9ee6c4a134e1a73abfa6f96b8a18026ce18f7d970293e53ecd"

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
