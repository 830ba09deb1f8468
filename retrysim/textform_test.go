package retrysim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// The constant `full` is a system with every key.
const full = `{"services": {
	"web": {"rate": "280/s", "patience": "2s", "clients": 10, "lend": 3, "calls": [
		{"to": "db", "timeout": "1s", "retry": {"max_attempts": 2, "jitter": "full"}, "budget": {"size": 100, "ratio": 0.1, "refill_every": "1s", "remember": "2s", "grace": "500ms"}},
		{"to": "log"}]},
	"db": {"workers": 30, "work": "100ms", "distribution": "normal", "queue": 500, "cancel": "queue"},
	"log": {"workers": 1, "work": "1ms", "queue": 0}},
	"events": [{"at": "20s", "for": "10s", "service": "db", "workers": 0}, {"at": "0s", "for": "1ms", "service": "db", "slower": 2.5},
		{"at": "1s", "for": "1s", "service": "db", "fail": 0}, {"at": "1s", "for": "1s", "service": "web", "rate": "0.5/s"}],
	"duration": "2m0s"}`

func TestForm(t *testing.T) {
	want := System{Duration: 2 * time.Minute, Services: map[string]Service{
		"web": {Rate: 280, Patience: 2 * time.Second, Clients: 10, Lend: 3, Calls: []Edge{
			{To: "db", Policy: retry.Policy{MaxAttempts: 2, Jitter: retry.FullJitter, AttemptTimeout: time.Second, Budget: &retry.Budget{Size: 100, Ratio: 0.1, RefillEvery: time.Second, Remember: 2 * time.Second, Grace: 500 * time.Millisecond}}},
			{To: "log"}}},
		"db":  {Workers: 30, Work: 100 * time.Millisecond, Distribution: Normal, Queue: 500, Cancel: CancelQueue},
		"log": {Workers: 1, Work: time.Millisecond, Queue: NoQueue},
	}, Events: []Trigger{
		{20 * time.Second, 10 * time.Second, "db", Workers, 0}, {0, time.Millisecond, "db", Slower, 2.5},
		{time.Second, time.Second, "db", Fail, 0}, {time.Second, time.Second, "web", Rate, 0.5}}}
	s := System{Services: map[string]Service{"gone": {}}}
	require.NoError(t, s.UnmarshalYAML(func(v any) error {
		dec := json.NewDecoder(strings.NewReader(full))
		dec.UseNumber()
		return dec.Decode(v)
	}))
	assert.Equal(t, want, s)
	require.NoError(t, s.Validate())
}

func readRows(t *testing.T, file string, rows any) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, rows))
}

// testdata/faults.json lists texts that UnmarshalJSON refuses, and testdata/invalid.json lists
// systems that Validate refuses.
func TestFaults(t *testing.T) {
	type row struct {
		Text json.RawMessage
		Want string
	}
	var faults, invalid []row
	readRows(t, "testdata/faults.json", &faults)
	for _, row := range faults {
		s := System{Duration: 7}
		assert.EqualError(t, s.UnmarshalJSON(row.Text), "retrysim: invalid system: "+row.Want, string(row.Text))
		assert.Equal(t, System{Duration: 7}, s, "a system that was not read is unchanged")
	}
	readRows(t, "testdata/invalid.json", &invalid)
	for _, row := range invalid {
		var s System
		require.NoError(t, s.UnmarshalJSON(row.Text), string(row.Text))
		for _, err := range []error{s.Validate(), second(Run(s, 1)), second(Explain(s, 1)), Check(s, GoodputAtLeast(0))} {
			assert.EqualError(t, err, "retrysim: invalid system: "+row.Want)
		}
	}
	var s System
	assert.EqualError(t, s.UnmarshalYAML(func(any) error { return errors.New("yaml: line 1:\n  no") }), "retrysim: invalid system: yaml: line 1: no")

	s = System{Services: map[string]Service{"a": {Rate: -1, Work: -1, Clients: -1, Workers: -1, Queue: -2, Cancel: "x", Distribution: "y", Lend: -1, Patience: -1}}}
	assert.Equal(t, 9, strings.Count(s.Validate().Error(), "services.a."), "the error names every fault")
	for i := range 100 { // 2^100 requests for each call
		next := Edge{To: fmt.Sprint("s", i+1)}
		s.Services[fmt.Sprint("s", i)] = Service{Calls: []Edge{next, next}}
	}
	s.Services["a"], s.Services["s100"] = Service{Rate: 1, Calls: []Edge{{To: "s0"}}}, Service{}
	assert.ErrorContains(t, s.Validate(), "events without a single retry")
}

// An error contains a Finding for each fault, with the key that is at fault.
func TestFindings(t *testing.T) {
	const services = `"services": {"web": {"rate": "1/s", "calls": [{"to": "db", "retry": %s}]}, "db": {%s}}`
	type finding struct{ code, key, text string }
	for name, row := range map[string]struct {
		retry, db string
		want      []finding
	}{
		"a key of a policy": {`{"max_attempts": 0, "max_delive": 1, "backoff": {"type": "fixed"}}`, ``, []finding{
			{"invalid_value", "services.web.calls[0].retry.max_attempts", "services.web.calls[0].retry: max_attempts is 0: write how many attempts in all: 1 for no retry, -1 for unlimited"},
			{"missing_key", "services.web.calls[0].retry.backoff.base", `services.web.calls[0].retry: backoff.base is missing: write a duration as text, such as "200ms" or "1m30s"`},
			{"unknown_key", "services.web.calls[0].retry.max_delive", `services.web.calls[0].retry: unknown key "max_delive": the keys of a policy are ` + policyKeys()}}},
		"not a policy":        {`[]`, ``, []finding{{"invalid_value", "services.web.calls[0].retry", `services.web.calls[0].retry: got [], want a mapping such as {"max_attempts": 5}`}}},
		"a key of a service":  {`{}`, `"workers": "x"`, []finding{{"invalid_value", "services.db.workers", `services.db.workers is "x": write how many workers there are, such as 30, or leave it out for no limit`}}},
		"a fault of Validate": {`{}`, `"lend": 3`, []finding{{"invalid_value", "services.db.lend", "services.db.lend is 3: write how many retries a call from outside may cost in all, such as 3, in a service that has a rate"}}},
		"too many attempts": {`{"max_attempts": 2000000}`, ``, []finding{{"invalid_value", "services.web.calls[0].retry",
			"services.web.calls[0].retry: a call from outside can become 2e+06 attempts at db, because the attempts of all layers multiply, and more than 1000000 take too long: write a smaller max_attempts in one of the layers"}}},
		"services in a circle": {`{}`, `"calls": [{"to": "web"}]`, []finding{{"invalid_value", "services", "services call each other in a circle: db -> web -> db: take one of these calls out"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var s System
			err := s.UnmarshalJSON(fmt.Appendf(nil, "{"+services+"}", row.retry, row.db))
			if err == nil {
				err = s.Validate()
			}
			var found interface{ Findings() []retry.Finding }
			require.ErrorAs(t, err, &found)
			var got []finding
			for _, f := range found.Findings() {
				got = append(got, finding{f.Code, f.Key, f.InKeys()})
			}
			assert.Equal(t, row.want, got)
		})
	}
}

// policyKeys returns the keys of a policy, without the keys inside a mapping such as `backoff`.
func policyKeys() string {
	return strings.Join(slices.DeleteFunc(retry.Keys(), func(key string) bool { return strings.Contains(key, ".") }), ", ")
}

func (s *System) edit(name string, change func(*Service)) {
	v := s.Services[name]
	change(&v)
	s.Services[name] = v
}

func second[T any](_ T, err error) error { return err }
