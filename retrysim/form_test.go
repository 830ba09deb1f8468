package retrysim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// full has every key.
const full = `{"services": {
	"web": {"rate": "280/s", "patience": "2s", "clients": 10, "lend": 3, "calls": [
		{"to": "db", "timeout": "1s", "retry": {"max_attempts": 2, "jitter": "full"}, "budget": {"size": 100, "ratio": 0.1, "refill_every": "1s"}},
		{"to": "log"}]},
	"db": {"workers": 30, "work": "100ms", "distribution": "normal", "queue": 500, "cancel": "queue"},
	"log": {"workers": 1, "work": "1ms", "queue": 0}},
	"events": [{"at": "20s", "for": "10s", "service": "db", "workers": 0}, {"at": "0s", "for": "1ms", "service": "db", "slower": 2.5},
		{"at": "1s", "for": "1s", "service": "db", "fail": 0}, {"at": "1s", "for": "1s", "service": "web", "rate": "0.5/s"}],
	"duration": "2m0s"}`

func TestForm(t *testing.T) {
	want := System{Duration: 2 * time.Minute, Services: map[string]Service{
		"web": {Rate: 280, Patience: 2 * time.Second, Clients: 10, Lend: 3, Calls: []Edge{
			{To: "db", Policy: retry.Policy{MaxAttempts: 2, Jitter: retry.FullJitter, AttemptTimeout: time.Second, Budget: &retry.Budget{Size: 100, Ratio: 0.1, RefillEvery: time.Second}}},
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

	written, err := json.Marshal(s)
	require.NoError(t, err)
	var read System
	require.NoError(t, json.Unmarshal(written, &read))
	assert.Equal(t, want, read)

	s.Services["web"].Calls[0].Policy.Backoff = retry.BackoffFunc(func(int) time.Duration { return 1 })
	_, err = json.Marshal(s)
	assert.ErrorContains(t, err, "no text form")
}

func TestFormFaults(t *testing.T) {
	const web = `{"services": {"web": {"rate": "1/s"%s}}}`
	service := func(keys string) string { return fmt.Sprintf(web, ", "+keys) }
	event := func(keys string) string { return `{"events": [{` + keys + `}]}` }
	const when = `"at": "1s", "for": "1s", "service": "web"`
	for _, tc := range []struct{ text, want string }{
		{`[]`, `got [], want a mapping such as ` + exampleSystem},
		{`{"service": {}}`, `unknown key "service": the keys of a system are services, events, duration`},
		{`{"services": {"web": 1}}`, `services.web is 1: write a service, such as {"workers": 30, "work": "100ms"}`},
		{`{"services": {"web": {}, "web": {}}}`, `duplicate key "services.web"`},
		{`{"services": {"web": {"rate": 280}}}`, `services.web.rate is 280: write ` + writeRate},
		{`{"services": {"web": {"rate": "280/m"}}}`, `services.web.rate is "280/m": write ` + writeRate},
		{`{"services": {"web": {"rate": "NaN/s"}}}`, `services.web.rate is "NaN/s": write ` + writeRate},
		{service(`"workers": 0`), `services.web.workers is 0: write ` + writeWorkers},
		{service(`"queue": -1`), `services.web.queue is -1: write how many requests may wait, or leave it out for no limit`},
		{service(`"cancel": "all"`), `services.web.cancel is "all": write none, queue or work`},
		{service(`"work": 100`), `services.web.work is 100: write a duration as text, such as "200ms" or "1m30s"`},
		{service(`"calls": {"to": "db"}`), `services.web.calls is {"to":"db"}: write a list such as [{"to": "db", "timeout": "1s"}]`},
		{service(`"calls": [{"to": "db"}, 7]`), `services.web.calls[1] is 7: write a list such as [{"to": "db", "timeout": "1s"}]`},
		{service(`"calls": [{"too": "db"}]`), `services.web.calls[0].to is missing: write the name of a service; unknown key "services.web.calls[0].too": the keys of a call are to, timeout, retry, budget`},
		{service(`"calls": [{"to": "db", "retry": {"max_attempts": 0}}]`), `services.web.calls[0].retry: max_attempts is 0: write how many attempts in all: 1 for no retry, -1 for unlimited`},
		{service(`"calls": [{"to": "db", "timeout": "1s", "retry": {"attempt_timeout": "2s"}}]`), `services.web.calls[0].timeout is 1s: write it once, here or as attempt_timeout of retry`},
		{service(`"calls": [{"to": "db", "budget": {"ratio": 2}}]`), `services.web.calls[0].budget.size is missing: write how many retries it holds, at least 1`},
		{event(`"at": "1s", "service": "web", "fail": 1`), `events[0].for is 0s: write how long it lasts, such as 10s`},
		{event(when), `events[0].change is "": write what happens: "workers": 0, "slower": 3, "fail": 0.5 or "rate": "400/s"`},
		{event(when + `, "fail": 1, "slower": 2`), `events[0].fail is given beside slower: write an event for each`},
		{event(when + `, "fail": 50`), `events[0].fail is 50: write the share of requests that is refused, between 0 and 1`},
	} {
		s := System{Duration: 7}
		assert.EqualError(t, s.UnmarshalJSON([]byte(tc.text)), "retrysim: invalid system: "+tc.want, tc.text)
		assert.Equal(t, System{Duration: 7}, s, "a system that was not read is unchanged")
	}
	var s System
	assert.EqualError(t, s.UnmarshalYAML(func(any) error { return errors.New("yaml: line 1:\n  no") }), "retrysim: invalid system: yaml: line 1: no")
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*System)
		want   string
	}{
		{"nothing", func(s *System) { *s = System{} }, "services is 0: write between 1 and 1000 services"},
		{"no calls from outside", func(s *System) { s.edit("web", func(v *Service) { v.Rate, v.Lend = 0, 0 }); s.Events = nil },
			`rate is missing in all services: write how many calls come from outside, such as "280/s", in one of them`},
		{"an unknown service", func(s *System) { s.Services["web"].Calls[0].To = "dB" }, `services.web.calls[0].to is "dB": write the name of a service`},
		{"an unknown service of an event", func(s *System) { s.Events[0].Service = "" }, `events[0].service is "": write the name of a service`},
		{"an invalid policy", func(s *System) { s.Services["web"].Calls[0].Policy.MaxAttempts = -2 },
			`services.web.calls[0].retry: invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited`},
		{"a circle", func(s *System) { s.edit("db", func(v *Service) { v.Calls = []Edge{{To: "web"}} }) },
			"services call each other in a circle: db -> web -> db: take one of these calls out"},
		{"a rate of its own", func(s *System) { s.Events[3].Service = "db" },
			"events[3].rate is 0.5: write the name of a service that has a rate, because others get no calls from outside"},
		{"retries for no calls", func(s *System) { s.edit("db", func(v *Service) { v.Lend = 1 }) },
			"services.db.lend is 1: write it beside the rate of calls from outside: it is they that bring retries"},
		{"half a worker", func(s *System) { s.Events[0].Value = 0.5 }, "events[0].workers is 0.5: write how many workers take new requests, such as 0"},
		{"too short", func(s *System) { s.Duration = 39 * time.Second },
			"duration is 39s: write at least 40s, which is 10s after the end of the last event, or leave it out"},
		{"too many lines", func(s *System) { s.Duration = 999 * time.Hour }, "3.5964e+06 seconds of 3 services are more than 10000000 lines of results: write a shorter duration"},
		{"too many events", func(s *System) { s.Events[3].Value = 1e7 },
			"it takes about 7.2e+09 events without a single retry, more than 1000000000: write a shorter duration or a lower rate"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s System
			require.NoError(t, s.UnmarshalJSON([]byte(full)))
			tc.change(&s)
			assert.EqualError(t, s.Validate(), "retrysim: invalid system: "+tc.want)
			for _, err := range []error{second(Run(s, 1)), second(Explain(s, 1)), second(Margin(s)), Check(s, GoodputAtLeast(0))} {
				assert.EqualError(t, err, "retrysim: invalid system: "+tc.want)
			}
		})
	}
	t.Run("services that multiply", func(t *testing.T) { // 2^100 requests for each call
		s := System{Services: map[string]Service{"s100": {}}}
		for i := range 100 {
			next := Edge{To: fmt.Sprint("s", i+1)}
			s.Services[fmt.Sprint("s", i)] = Service{Calls: []Edge{next, next}}
		}
		s.edit("s0", func(v *Service) { v.Rate = 1 })
		assert.ErrorContains(t, s.Validate(), "events without a single retry")
	})
	t.Run("every fault at once", func(t *testing.T) {
		s := System{Services: map[string]Service{"a": {Rate: -1, Work: -1, Clients: -1, Workers: -1, Queue: -2, Cancel: "x", Distribution: "y", Lend: -1, Patience: -1}}}
		assert.Equal(t, 9, strings.Count(s.Validate().Error(), "services.a."))
	})
}

func (s *System) edit(name string, change func(*Service)) {
	v := s.Services[name]
	change(&v)
	s.Services[name] = v
}

func second[T any](_ T, err error) error { return err }
