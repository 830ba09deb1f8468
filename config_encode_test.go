package retry_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

func TestConfigEncode(t *testing.T) {
	for want, p := range map[string]retry.Policy{
		`{}`:                         {},
		`{"max_attempts":-1}`:        {MaxAttempts: retry.Unlimited},
		`{"max_retries":-1}`:         {MaxRetries: retry.Unlimited},
		`{"retryable":false}`:        {NonRetryable: true},
		`{"jitter":0}`:               {Jitter: retry.Proportional(0)},
		`{"jitter":"full"}`:          {Jitter: retry.FullJitter},
		`{"jitter":"equal"}`:         {Jitter: retry.EqualJitter},
		`{"exact_retry_after":true}`: {ExactRetryAfter: true},
		`{"healthy_after":"1ms"}`:    {HealthyAfter: time.Millisecond},
		`{"max_delay":"1h30m0s"}`:    {MaxDelay: 90 * time.Minute},
		`{"max_attempts":5,"backoff":{"type":"exponential","base":"200ms","factor":2},"max_delay":"5s","jitter":0.2}`: retry.Default(),
		`{"backoff":{"type":"exponential","base":"0s"}}`:                                                              {Backoff: retry.Exponential{}},
		`{"backoff":{"type":"fixed","base":"0s"}}`:                                                                    {Backoff: retry.Fixed(0)},
		`{"backoff":{"type":"linear","base":"1ns"}}`:                                                                  {Backoff: retry.Linear(1)},
		`{"backoff":{"type":"fibonacci","base":"1s"}}`:                                                                {Backoff: retry.Fibonacci(time.Second)},
		`{"backoff":{"type":"schedule","delays":["5m0s","0s"]}}`:                                                      {Backoff: retry.Schedule{5 * time.Minute, 0}},
		fullPolicyJSON: fullPolicy,
	} {
		t.Run(want, func(t *testing.T) {
			data, err := json.Marshal(p)
			require.NoError(t, err)
			assert.Equal(t, want, string(data))
			text, err := p.MarshalText()
			require.NoError(t, err)
			assert.Equal(t, want, string(text))
			assertRoundTrip(t, p)
		})
	}
}

// fullPolicy has a value in every field that has a key.
var fullPolicy = retry.Policy{
	MaxAttempts: 1, MaxRetries: 2, AttemptCap: 3, NonRetryable: true,
	Backoff: retry.Schedule{1}, MaxDelay: 5, Jitter: retry.FullJitter, MaxRetryAfter: 6, ExactRetryAfter: true,
	MaxElapsed: 7, AttemptTimeout: 8, HealthyAfter: 9 * time.Millisecond,
}

const fullPolicyJSON = `{"max_attempts":1,"max_retries":2,"attempt_cap":3,"retryable":false,"backoff":{"type":"schedule","delays":["1ns"]},` +
	`"max_delay":"5ns","jitter":"full","max_retry_after":"6ns","exact_retry_after":true,"max_elapsed":"7ns","attempt_timeout":"8ns","healthy_after":"9ms"}`

// The keys that are written, the keys that are read, and the documented keys
// are the same.
func TestConfigKeys(t *testing.T) {
	var indented bytes.Buffer
	require.NoError(t, json.Indent(&indented, []byte(fullPolicyJSON), "", " "))
	var written []string
	for _, key := range regexp.MustCompile(`(?m)^ "(\w+)":`).FindAllStringSubmatch(indented.String(), -1) {
		written = append(written, key[1])
	}
	require.Len(t, written, 12)

	var p retry.Policy
	err := json.Unmarshal([]byte(`{"?": 0}`), &p)
	assert.ErrorContains(t, err, "the keys of a policy are "+strings.Join(written, ", "))

	source, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	table := regexp.MustCompile(`//\tkey .*\n((?://\t.*\n)+)`).FindSubmatch(source)
	require.NotNil(t, table)
	var documented []string
	for line := range strings.Lines(string(table[1])) {
		documented = append(documented, strings.Fields(line)[1])
	}
	assert.Equal(t, written, documented)
}

type foreign struct{}

func (foreign) Delay(int) time.Duration                       { return 0 }
func (foreign) Window(d time.Duration) (lo, hi time.Duration) { return d, d }
func (foreign) Error() string                                 { return "foreign" }

func TestConfigEncodeErrors(t *testing.T) {
	const (
		backoff = ", which has no text form: use Fixed, Linear, Exponential, Fibonacci or Schedule"
		jitter  = ", which has no text form: use FullJitter, EqualJitter or Proportional"
	)
	for want, p := range map[string]retry.Policy{
		"retry: Backoff is a retry.BackoffFunc" + backoff:                    {Backoff: retry.BackoffFunc(nil)},
		"retry: Backoff is a *retry.Exponential" + backoff:                   {Backoff: &retry.Exponential{Base: 1}},
		"retry: Backoff is a retry_test.foreign" + backoff:                   {Backoff: foreign{}},
		"retry: Backoff is an empty Schedule: use nil for no delay":          {Backoff: retry.Schedule{}},
		"retry: Jitter is a retry_test.foreign" + jitter:                     {Jitter: foreign{}},
		"retry: invalid policy: Jitter: Spread is 0: write FullJitter, ":     {Jitter: retry.FullJitter - 1},
		"retry: invalid policy: Jitter: Spread is 7: ":                       {Jitter: retry.FullJitter + 6},
		"retry: invalid policy: MaxDelay is -1ns: write 0 for none, or a po": {MaxDelay: -1},
		"retry: invalid policy: MaxAttempts is -2: ":                         {MaxAttempts: -2},
		"retry: invalid policy: Backoff: Exponential.Factor is NaN: ":        {Backoff: retry.Exponential{Factor: math.NaN()}},
		"retry: invalid policy: Backoff: Exponential.Factor is +Inf: ":       {Backoff: retry.Exponential{Factor: math.Inf(1)}},
		"retry: invalid policy: Jitter: Proportional is 1.5: ":               {Jitter: retry.Proportional(1.5)},
		"retry: invalid policy: HealthyAfter is 999µs: ":                     {HealthyAfter: 999 * time.Microsecond},
	} {
		t.Run(want, func(t *testing.T) {
			_, err := p.MarshalJSON()
			require.ErrorContains(t, err, want)
			assert.True(t, strings.HasPrefix(err.Error(), want), err)
			_, err = p.MarshalText()
			assert.ErrorContains(t, err, want)
			_, err = p.MarshalYAML()
			assert.ErrorContains(t, err, want)
			_, err = json.Marshal(p)
			assert.ErrorContains(t, err, want)
		})
	}
}

// A field without a key does not prevent a policy from being written: neither a
// Budget that makes it valid nor one that makes it invalid.
func TestConfigEncodeLeavesTheWholeToValidate(t *testing.T) {
	for _, budget := range []*retry.Budget{nil, &retry.Budget{Size: 1, Ratio: 0.5}, &retry.Budget{Ratio: 7}} {
		data, err := json.Marshal(retry.Policy{MaxAttempts: retry.Unlimited, Budget: budget})
		require.NoError(t, err)
		assert.Equal(t, `{"max_attempts":-1}`, string(data))
	}
}

// assertRoundTrip checks that p survives each form.
func assertRoundTrip(t *testing.T, p retry.Policy) {
	t.Helper()
	data, err := json.Marshal(p)
	require.NoError(t, err)
	assert.NotContains(t, string(data), "\n")
	var fromJSON, fromText, fromYAML retry.Policy
	require.NoError(t, json.Unmarshal(data, &fromJSON))
	require.Equal(t, p, fromJSON)
	require.NoError(t, fromText.UnmarshalText(data))
	require.Equal(t, p, fromText)

	// This is not YAML, but YAML libraries call the method like this.
	require.NoError(t, fromYAML.UnmarshalYAML(func(v any) error {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		return dec.Decode(v)
	}))
	require.Equal(t, p, fromYAML)
}

// policyFrom makes a policy from the numbers of a fuzzer.
func policyFrom(attempts, retries, ceiling int, nonRetryable bool, kind uint8, base int64, factor float64, rest int64, jitter uint8, share float64) retry.Policy {
	p := retry.Policy{
		MaxAttempts: attempts, MaxRetries: retries, AttemptCap: ceiling, NonRetryable: nonRetryable,
		MaxDelay: time.Duration(rest), MaxRetryAfter: time.Duration(rest / 3), MaxElapsed: time.Duration(rest / 5), AttemptTimeout: time.Duration(rest / 7),
		ExactRetryAfter: rest%2 == 1, HealthyAfter: time.Duration(rest / 9),
	}
	d := time.Duration(base)
	p.Backoff = []retry.Backoff{nil, retry.Fixed(d), retry.Linear(d), retry.Fibonacci(d),
		retry.Exponential{Base: d, Factor: factor}, retry.Schedule{d, d / 3, 0}, retry.BackoffFunc(nil)}[kind%7]
	p.Jitter = []retry.Jitter{nil, retry.FullJitter, retry.EqualJitter, retry.Proportional(share), foreign{}}[jitter%5]
	return p
}

// Every valid policy that holds only built-in types can be written, and reading
// it back gives the same policy.
func FuzzConfigRoundTrip(f *testing.F) {
	f.Add(5, 0, 0, false, uint8(4), int64(200*time.Millisecond), 2.0, int64(5*time.Second), uint8(3), 0.2)
	f.Add(-1, -1, 1, true, uint8(5), int64(math.MaxInt64), 1.0000000000000002, int64(math.MaxInt64), uint8(3), 5e-324)
	f.Add(math.MaxInt, 0, math.MaxInt, true, uint8(4), int64(1), math.MaxFloat64, int64(1), uint8(1), 1.0)
	f.Add(0, 3, 0, false, uint8(4), int64(1), 1e21, int64(0), uint8(2), 0.1+0.2)
	f.Add(-7, -7, -7, false, uint8(6), int64(-1), math.NaN(), int64(-1), uint8(4), math.Inf(-1))
	f.Fuzz(func(t *testing.T, attempts, retries, ceiling int, nonRetryable bool, kind uint8, base int64, factor float64, rest int64, jitter uint8, share float64) {
		p := policyFrom(attempts, retries, ceiling, nonRetryable, kind, base, factor, rest, jitter, share)
		ours := kind%7 != 6 && jitter%5 != 4
		if _, err := p.MarshalJSON(); err == nil {
			assertRoundTrip(t, p)
		} else if ours {
			p.Budget = &retry.Budget{Size: 1} // so that a missing delay is no fault, which this test is not about
			require.EqualError(t, err, "retry: "+p.Validate().Error())
		}
		if !ours {
			_, err := p.MarshalJSON()
			require.Error(t, err)
		}
	})
}
