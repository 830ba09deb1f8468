package retrysim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func checkout(t *testing.T, queue string) System {
	return system(t, `{"services": {
		"web": {"rate": "20/s", "calls": [{"to": "payments", "timeout": "500ms", "retry": {"max_attempts": 3}}]},
		"payments": {"workers": 4, "work": "100ms", "distribution": "fixed"`+queue+`}},
		"events": [{"at": "10s", "for": "5s", "service": "payments", "workers": 0}]}`)
}

func TestCheck(t *testing.T) {
	assert.NoError(t, Check(checkout(t, `, "queue": 10`), RecoversWithin(5*time.Second), LoadAtMost("payments", 3.2), GoodputAtLeast(0.85)))

	err := Check(checkout(t, ""), RecoversWithin(5*time.Second), LoadAtMost("payments", 1.5), LoadAtMost("web", 1), GoodputAtLeast(0.9))
	require.Error(t, err)
	assert.Regexp(t, `^retrysim: recovers within 5s: (stays down|recovers .*), missed in \d+ of 10 runs; `+
		`load on payments at most 1\.50 times its normal load: \d\.\d\d times at \d+s, missed in 10 of 10 runs; `+
		`at least 90% of all calls work: \d+(\.\d+)?% work, missed in 10 of 10 runs$`, err.Error())
}

// In a lull the retries of what was called before are not held against it.
func TestLoadInALull(t *testing.T) {
	s := system(t, `{"services": {
		"web": {"rate": "20/s", "calls": [{"to": "db", "retry": {"max_attempts": 2, "backoff": {"type": "fixed", "base": "2s"}}}]}, "db": {}},
		"events": [{"at": "9s", "for": "2s", "service": "db", "fail": 1}, {"at": "10s", "for": "9s", "service": "web", "rate": "0/s"}], "duration": "40s"}`)
	assert.NoError(t, Check(s, LoadAtMost("db", 1.5)))
}

// A run is as long as the conditions need.
func TestCheckProlongsTheRun(t *testing.T) {
	s := system(t, `{"services": {
		"web": {"rate": "24/s", "calls": [{"to": "db", "timeout": "1s"}]}, "db": {"workers": 3, "work": "100ms"}},
		"events": [{"at": "20s", "for": "10s", "service": "db", "workers": 0}], "duration": "40s"}`)
	assert.ErrorContains(t, Check(s, RecoversWithin(5*time.Second)), "recovers within 5s: ")
	assert.NoError(t, Check(s, RecoversWithin(10*time.Minute)))
}

func TestCheckRefuses(t *testing.T) {
	s := checkout(t, "")
	for _, tc := range []struct {
		name      string
		condition []Condition
		want      string
	}{
		{"no condition", nil, "retrysim: Check without a condition: write one, such as RecoversWithin(30*time.Second)"},
		{"an empty one", []Condition{{}}, "retrysim: an empty Condition: write one, such as RecoversWithin(30*time.Second)"},
		{"a negative time", []Condition{RecoversWithin(-time.Second)}, "retrysim: RecoversWithin(-1s): write a duration such as 30s"},
		{"no such service", []Condition{LoadAtMost("pay", 2)}, `retrysim: there is no service "pay": the services are payments, web`},
		{"no load", []Condition{LoadAtMost("web", 0)}, `retrysim: LoadAtMost("web", 0): write a factor above 0, such as 1.5`},
		{"a share in percent", []Condition{GoodputAtLeast(95)}, "retrysim: GoodputAtLeast(95): write a share between 0 and 1, such as 0.95"},
	} {
		t.Run(tc.name, func(t *testing.T) { assert.EqualError(t, Check(s, tc.condition...), tc.want) })
	}
	assert.ErrorContains(t, Check(System{}, RecoversWithin(0)), "retrysim: invalid system: ")
}
