package retrysim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestCheck(t *testing.T) {
	s := system(t, small)
	assert.ErrorContains(t, Check(s, GoodputAtLeast(0.9)), "retrysim: at least 90% of all calls succeed: ")
	s.edit("db", func(v *Service) { v.Queue = 10 })
	assert.NoError(t, Check(s, RecoversWithin(5*time.Second), LoadAtMost("db", 3.2), GoodputAtLeast(0.8)))

	// In a lull, the retries of earlier calls do not count as too much load.
	s = system(t, `{"services": {
		"web": {"rate": "20/s", "calls": [{"to": "db", "retry": {"max_attempts": 2, "backoff": {"type": "fixed", "base": "2s"}}}]}, "db": {}},
		"events": [{"at": "9s", "for": "2s", "service": "db", "fail": 1}, {"at": "10s", "for": "9s", "service": "web", "rate": "0/s"}], "duration": "40s"}`)
	assert.NoError(t, Check(s, LoadAtMost("db", 1.5)))

	// If the Duration is too short for a condition, Check simulates a longer time.
	s = system(t, small)
	s.Services["web"].Calls[0].Policy.MaxAttempts, s.Duration = 1, 40*time.Second
	assert.ErrorContains(t, Check(s, RecoversWithin(5*time.Second)), "recovers within 5s: ")
	assert.NoError(t, Check(s, RecoversWithin(10*time.Minute)))

	const empty = "retrysim: Check got no Condition or an empty Condition: write a Condition such as RecoversWithin(30*time.Second)"
	assert.EqualError(t, Check(s, Condition{}), empty)
	assert.EqualError(t, Check(s), empty)
	assert.EqualError(t, Check(s, LoadAtMost("pay", 2)), `retrysim: a Condition names the service "pay", but the services of the System are db, web`)
}
