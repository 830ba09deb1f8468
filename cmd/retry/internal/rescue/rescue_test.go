package rescue

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retrysim"
)

func system(t *testing.T, text string) (s retrysim.System) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &s))
	return s
}

// Find orders the changes that help a small system by the number of lost calls. Each change has the
// result of Explain for the changed system.
func TestFindOrdersChangesByLostCalls(t *testing.T) {
	calls, most := 0, 0
	s := system(t, `{"services": {
		"web": {"rate": "21/s", "calls": [{"to": "db", "timeout": "1s", "retry": {"max_attempts": 2}}]},
		"db": {"workers": 3, "work": "100ms"}},
		"events": [{"at": "20s", "for": "10s", "service": "db", "workers": 0}]}`)
	a, err := retrysim.Explain(s, 3)
	require.NoError(t, err)
	help, useless, err := Find(s, a, 3, func(done, of int) {
		assert.Equal(t, calls, done)
		calls, most = calls+1, of
	})
	require.NoError(t, err)
	assert.Equal(t, most, calls)
	assert.Equal(t, []string{"web -> db: timeout: 500ms", "web -> db: jitter: full, backoff: exponential 100ms"}, useless)
	assert.True(t, slices.IsSortedFunc(help, func(r, q Rescue) int { return r.Lost - q.Lost }))
	var texts []string
	for _, r := range help {
		texts = append(texts, r.Change)
		changed := r.applyTo(s)
		changed.Duration = time.Duration(len(a.Run.Seconds)) * time.Second
		b, err := retrysim.Explain(changed, 3)
		require.NoError(t, err)
		assert.Equal(t, []any{b.Outcome.Verdict, b.Lost, b.Margin, b.MarginShare}, []any{r.Verdict, r.Lost, r.Margin, r.Share}, r.Change)
	}
	assert.Equal(t, []string{"db: cancel: work", "db: cancel: queue", "db: queue: 24", "web -> db: max_attempts: 1", "web -> db: budget: the default of a target"}, texts)
	written, err := json.Marshal(help[0])
	require.NoError(t, err)
	assert.Regexp(t, `^{"change":"db: cancel: work","verdict":"recovers","lost":\d+,"margin":[\d.]+,"margin_share":[\d.]+}$`, string(written))
}

// For a system with two layers, changes returns each usual change for the right service or call.
func TestChangesAreInTheirPlaces(t *testing.T) {
	s := system(t, `{"services": {
		"web": {"rate": "24/s", "patience": "3s", "workers": 100, "work": "1s", "cancel": "work", "calls": [
			{"to": "api", "retry": {"max_attempts": -1, "backoff": {"type": "fixed", "base": "1s"}}, "budget": {"size": 9}}, {"to": "db", "timeout": "2s"}]},
		"api": {"queue": 5, "workers": 1, "work": "1ms", "cancel": "queue", "calls": [{"to": "db", "timeout": "1s", "retry": {"max_attempts": 3, "jitter": "full", "backoff": {"type": "fixed", "base": "1s"}}}]},
		"db": {"workers": 10, "work": "100ms", "queue": 80}}}`)
	var texts []string
	for _, r := range changes(s) {
		texts = append(texts, r.Change)
		changed := r.applyTo(s)
		require.NoError(t, changed.Validate(), r.Change)
		assert.NotEqual(t, s, changed, r.Change)
	}
	assert.Equal(t, []string{
		"api -> db: timeout: 500ms", "api -> db: max_attempts: 2", "api -> db: budget: the default of a target",
		"web -> api: max_attempts: 3", "web -> api: jitter: full", "web -> db: timeout: 1s", "each call: budget: the default of a target",
		"api: cancel: work", "db: cancel: queue", "db: cancel: work", "web: lend: 1", "web: queue: 240",
	}, texts)
}
