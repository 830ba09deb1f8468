package main

import (
	"bytes"
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retryflow"
)

// delays matches the delays, which differ because of the jitter.
var delays = regexp.MustCompile(`again in [0-9.]+m?s`)

func TestEachItemIsStoredOnce(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Zero(t, run(t.Context(), []string{"-pages", "4"}, &out, &errs))
	assert.Equal(t, `fetch page 1, attempt 1: continue
store page 1, attempt 1: conflict: another writer was first: retry
  again in *
store page 1, attempt 2: jump
fetch page 2, attempt 1: continue
store page 2, attempt 1: jump
fetch page 3, attempt 1: continue
store page 3, attempt 1: jump
fetch page 4, attempt 1: the server says 429 Too Many Requests: retry
  again in *
fetch page 4, attempt 2: the server says 500 Internal Server Error: retry
  again in *
fetch page 4, attempt 3: continue
store page 4, attempt 1: conflict: another writer was first: retry
  again in *
store page 4, attempt 2: conflict: another writer was first: retry
  again in *
store page 4, attempt 3: the answer of the store is lost: retry
  again in *
store page 4, attempt 4: continue
20 items, each stored once; 6 requests, 7 writes
`, delays.ReplaceAllString(out.String(), "again in *"))
	assert.Empty(t, errs.String())
}

func TestManyPages(t *testing.T) {
	var out bytes.Buffer
	assert.Zero(t, run(t.Context(), []string{"-pages", "40"}, &out, &out))
	assert.Contains(t, out.String(), "\n200 items, each stored once; ")
	for _, failure := range []string{"429", "500", "unexpected EOF", "conflict", "lost"} {
		assert.Contains(t, out.String(), failure)
	}
}

func TestWithoutRetriesItFailsAndSaysSo(t *testing.T) {
	var out bytes.Buffer
	assert.Equal(t, 1, run(t.Context(), []string{"-attempts", "1"}, &out, &out))
	assert.True(t, strings.HasSuffix(out.String(),
		"retryflow: task \"store\": retry: attempts exhausted after 1 attempt: conflict: another writer was first\n"), out.String())
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	assert.Equal(t, 1, run(ctx, nil, &out, &out))
	assert.Contains(t, out.String(), `task "fetch": retry: canceled before the first attempt`)
}

func TestBadFlags(t *testing.T) {
	var out bytes.Buffer
	assert.Equal(t, 2, run(t.Context(), []string{"-nosuch"}, &out, &out))
	assert.Contains(t, out.String(), "-pages")
	assert.Equal(t, 1, run(t.Context(), []string{"-attempts", "0"}, &out, &out))
	assert.Contains(t, out.String(), "write MaxAttempts or MaxRetries")
}

func TestCompare(t *testing.T) {
	want := []string{"a", "b"}
	for name, row := range map[string]struct {
		got  []string
		want string
	}{
		"the same":      {[]string{"b", "a"}, ""},
		"lost":          {[]string{"a"}, "b is lost"},
		"twice":         {[]string{"a", "b", "a"}, "a is stored 2 times"},
		"from nowhere":  {[]string{"a", "b", "c"}, "3 items are stored, and the server has 2"},
		"lost, another": {[]string{"a", "c"}, "b is lost"},
	} {
		err := compare(want, row.got)
		if row.want == "" {
			assert.NoError(t, err, name)
		} else {
			assert.EqualError(t, err, row.want, name)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for name, row := range map[string]struct {
		headers http.Header
		want    time.Duration
	}{
		"seconds":      {http.Header{"Retry-After": {"2"}}, 2 * time.Second},
		"milliseconds": {http.Header{"Retry-After": {"2"}, "Retry-After-Ms": {"30"}}, 30 * time.Millisecond},
		"a date":       {http.Header{"Retry-After": {"Fri, 31 Dec 1999 23:59:59 GMT"}}, 0},
		"nothing":      {http.Header{}, unsaid},
		"soon":         {http.Header{"Retry-After": {"soon"}}, unsaid},
		"odd millis":   {http.Header{"Retry-After": {"2"}, "Retry-After-Ms": {"-1"}}, 2 * time.Second},
		"too many":     {http.Header{"Retry-After": {"99999999999"}}, unsaid},
		"no headers":   {nil, unsaid},
	} {
		d, err := retryAfter(retryflow.Outcome{Data: map[string]any{"headers": row.headers}})
		require.NoError(t, err)
		assert.Equal(t, row.want, d, name)
	}
	synctest.Test(t, func(t *testing.T) {
		d, err := retryAfter(retryflow.Outcome{Data: map[string]any{"headers": http.Header{"Retry-After": {time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat)}}}})
		require.NoError(t, err)
		assert.Equal(t, 90*time.Second, d, "a date to come")
	})
	d, err := retryAfter(retryflow.Outcome{})
	require.NoError(t, err)
	assert.Equal(t, unsaid, d, "without an answer")
}
