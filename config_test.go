package retry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// Each policy has one text: MarshalJSON writes this text and UnmarshalJSON reads it.
func TestEachPolicyHasOneText(t *testing.T) {
	for want, p := range map[string]retry.Policy{
		`{}`:                         {},
		`{"max_retries":-1}`:         {MaxRetries: retry.Unlimited},
		`{"retryable":false}`:        {NonRetryable: true},
		`{"jitter":0}`:               {Jitter: retry.Proportional(0)},
		`{"jitter":"full"}`:          {Jitter: retry.FullJitter},
		`{"jitter":"equal"}`:         {Jitter: retry.EqualJitter},
		`{"retry_after":"exact"}`:    {RetryAfter: retry.RetryAfterExact},
		`{"retry_after":"at_least"}`: {RetryAfter: retry.RetryAfterAtLeast},
		`{"budget":{"size":1}}`:      {Budget: &retry.Budget{Size: 1}},
		`{"budget":{"size":9,"ratio":0.1,"refill_every":"1ms"}}`: {Budget: &retry.Budget{Size: 9, Ratio: 0.1, RefillEvery: time.Millisecond}},
		`{"budget":{"size":9,"grace":"1ms"}}`:                    {Budget: &retry.Budget{Size: 9, Grace: time.Millisecond}},
		`{"budget":{"size":9,"remember":"1ms"}}`:                 {Budget: &retry.Budget{Size: 9, Remember: time.Millisecond}},
		`{"budget":{"size":9,"borrowed":true}}`:                  {Budget: &retry.Budget{Size: 9, Borrowed: true}},
		`{"healthy_after":"1ms"}`:                                {HealthyAfter: time.Millisecond},
		`{"max_delay":"1h30m0s"}`:                                {MaxDelay: 90 * time.Minute},
		`{"max_attempts":5,"backoff":{"type":"exponential","base":"200ms","factor":2},"max_delay":"5s","jitter":0.5}`: retry.Default(),
		`{"backoff":{"type":"exponential","base":"0s"}}`:                                                              {Backoff: retry.Exponential{}},
		`{"backoff":{"type":"fixed","base":"0s"}}`:                                                                    {Backoff: retry.Fixed(0)},
		`{"backoff":{"type":"linear","base":"1ns"}}`:                                                                  {Backoff: retry.Linear(1)},
		`{"backoff":{"type":"fibonacci","base":"1s"}}`:                                                                {Backoff: retry.Fibonacci(time.Second)},
		`{"backoff":{"type":"schedule","delays":["5m0s","0s"]}}`:                                                      {Backoff: retry.Schedule{5 * time.Minute, 0}},
		`{"max_attempts":2147483647}`:                                                                                 {MaxAttempts: math.MaxInt32},
		`{"max_delay":"2562047h47m16.854775807s"}`:                                                                    {MaxDelay: math.MaxInt64},
		`{"jitter":1}`: {Jitter: retry.Proportional(1)},
		`{"backoff":{"type":"exponential","base":"1s","factor":1}}`: {Backoff: retry.Exponential{Base: time.Second, Factor: 1}},
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
	Backoff: retry.Schedule{1}, MaxDelay: 5, Jitter: retry.FullJitter, MaxRetryAfter: 6, RetryAfter: retry.RetryAfterExact,
	MaxElapsed: 7, AttemptTimeout: 8, HealthyAfter: 9 * time.Millisecond, Budget: &retry.Budget{Size: 10, Ratio: 1, RefillEvery: time.Hour, Remember: time.Minute, Grace: time.Second},
}

const fullPolicyJSON = `{"max_attempts":1,"max_retries":2,"attempt_cap":3,"retryable":false,"backoff":{"type":"schedule","delays":["1ns"]},` +
	`"max_delay":"5ns","jitter":"full","max_retry_after":"6ns","retry_after":"exact","max_elapsed":"7ns","attempt_timeout":"8ns","healthy_after":"9ms",` +
	`"budget":{"size":10,"ratio":1,"refill_every":"1h0m0s","remember":"1m0s","grace":"1s"}}`

// assertRoundTrip checks that p is the same after it was written and read as JSON, as text and as
// YAML.
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

	// A YAML library calls the method UnmarshalYAML in this way. This test needs no YAML library.
	require.NoError(t, fromYAML.UnmarshalYAML(func(v any) error {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		return dec.Decode(v)
	}))
	require.Equal(t, p, fromYAML)
}

func TestConfigDecodeErrors(t *testing.T) {
	data, err := os.ReadFile("testdata/faults.txt") // a line with a text, then a line with a tab and the fault of the text
	require.NoError(t, err)
	rows := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	require.Len(t, rows, 2*65)
	for i := 0; i < len(rows); i += 2 {
		text, want := rows[i], strings.TrimPrefix(rows[i+1], "\t")
		t.Run(text, func(t *testing.T) {
			filled := retry.Policy{MaxAttempts: 7, Jitter: retry.FullJitter, AttemptCap: 9, Backoff: retry.Schedule{1}}
			p := filled
			require.EqualError(t, p.UnmarshalJSON([]byte(text)), "retry: invalid policy: "+want)
			assert.Equal(t, filled, p, "an error does not change the policy")

			var config struct{ Retry retry.Policy }
			config.Retry = filled
			require.ErrorContains(t, json.Unmarshal([]byte(`{"Retry": `+text+`}`), &config), "retry: invalid policy: "+want)
			assert.Equal(t, filled, config.Retry)
		})
	}
	assert.ErrorContains(t, new(retry.Policy).UnmarshalJSON([]byte("{\"max_delay\": {\"seconds\":\n 5}}")), `max_delay is {"seconds":5}: `, "on one line")
}

// Neither null nor text that is not JSON is a policy. Inside a file, a null is the value of a key
// that was left empty.
func TestConfigTextThatIsNotAPolicy(t *testing.T) {
	const mapping = `, want a mapping such as {"max_attempts": 5}`
	filled := retry.Policy{MaxAttempts: 7}
	p := filled
	for _, text := range []string{"", "\n", "max_attempts: 3", `{"max_attempts": 3`, `{"max_attempts": 3}}`, `{"max_attempts": 3} {}`, `{"max_attempts" 3}`, `{3: 3}`, "\xff"} {
		err := p.UnmarshalText([]byte(text))
		require.ErrorContains(t, err, "retry: invalid policy: got invalid JSON (", "%q", text)
		assert.ErrorContains(t, err, mapping, "%q", text)
		assert.NotContains(t, err.Error(), "\n")
	}
	for _, text := range []string{"null", " null\n"} {
		require.EqualError(t, p.UnmarshalText([]byte(text)), "retry: invalid policy: got null"+mapping)
	}
	require.NoError(t, p.UnmarshalJSON([]byte("null")))
	assert.Equal(t, filled, p)
}

func TestConfigDecode(t *testing.T) {
	filled := retry.Policy{
		MaxAttempts: 5, AttemptCap: 10, NonRetryable: true,
		Backoff: retry.Exponential{Base: time.Second, Factor: 3}, MaxDelay: time.Minute, Jitter: retry.FullJitter, MaxRetryAfter: time.Hour, RetryAfter: retry.RetryAfterExact,
		MaxElapsed: 2 * time.Hour, AttemptTimeout: time.Second, HealthyAfter: time.Millisecond,
	}
	var none retry.Policy
	retries := filled
	retries.MaxAttempts, retries.MaxRetries = 0, 4
	both := filled
	both.MaxRetries = 4
	noCap := filled
	noCap.AttemptCap = 0
	for name, test := range map[string]struct {
		from retry.Policy
		text string
		set  func(*retry.Policy)
	}{
		"white space":                 {none, " { }\n", func(*retry.Policy) {}},
		"0 retries next to attempts":  {none, `{"max_retries": 0, "max_attempts": 5}`, func(p *retry.Policy) { p.MaxAttempts = 1 }},
		"0 retries next to unlimited": {none, `{"max_attempts": -1, "max_retries": 0}`, func(p *retry.Policy) { p.MaxAttempts = 1 }},
		"any order":                   {none, `{"backoff": {"base": "1.5s", "type": "linear"}}`, func(p *retry.Policy) { p.Backoff = retry.Linear(1500 * time.Millisecond) }},
		"a factor":                    {none, `{"backoff": {"type": "exponential", "base": "1us", "factor": 1.5e0}}`, func(p *retry.Policy) { p.Backoff = retry.Exponential{Base: time.Microsecond, Factor: 1.5} }},
		"durations of a schedule":     {none, `{"backoff": {"type": "schedule", "delays": ["5m", "1h"]}}`, func(p *retry.Policy) { p.Backoff = retry.Schedule{5 * time.Minute, time.Hour} }},
		"nothing":                     {filled, `{}`, func(*retry.Policy) {}},
		"null":                        {filled, `null`, func(*retry.Policy) {}},
		"every key null":              {filled, `{"max_attempts":null,"max_retries":null,"attempt_cap":null,"retryable":null,"backoff":null,"max_delay":null,"jitter":null,"max_retry_after":null,"retry_after":null,"max_elapsed":null,"attempt_timeout":null,"healthy_after":null,"budget":null}`, func(*retry.Policy) {}},
		"max_attempts":                {filled, `{"max_attempts": 3}`, func(p *retry.Policy) { p.MaxAttempts = 3 }},
		"max_delay":                   {filled, `{"max_delay": "1s"}`, func(p *retry.Policy) { p.MaxDelay = time.Second }},
		"retry_after":                 {filled, `{"retry_after": "spread"}`, func(p *retry.Policy) { p.RetryAfter = "" }},
		"a budget is one value":       {filled, `{"budget": {"size": 2}}`, func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 2} }},
		"a ratio of 0":                {none, `{"budget": {"size": 2, "ratio": 0}}`, func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 2} }},
		"no refill_every":             {none, `{"budget": {"size": 2, "refill_every": "0s"}}`, func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 2} }},
		"no healthy_after":            {filled, `{"healthy_after": "0s"}`, func(p *retry.Policy) { p.HealthyAfter = 0 }},
		"retryable":                   {filled, `{"retryable": true}`, func(p *retry.Policy) { p.NonRetryable = false }},

		// A Backoff is one value. If the text lacks a key of a backoff, the key is not taken from the old
		// Backoff.
		"backoff": {filled, `{"backoff": {"type": "exponential", "base": "2s"}}`, func(p *retry.Policy) { p.Backoff = retry.Exponential{Base: 2 * time.Second} }},

		"max_retries clears max_attempts":                {filled, `{"max_retries": 2}`, func(p *retry.Policy) { p.MaxAttempts, p.MaxRetries = 0, 2 }},
		"max_retries 0":                                  {filled, `{"max_retries": 0}`, func(p *retry.Policy) { p.MaxAttempts = 1 }},
		"max_attempts clears max_retries":                {retries, `{"max_attempts": 3}`, func(p *retry.Policy) { p.MaxAttempts, p.MaxRetries = 3, 0 }},
		"max_retries 0 over max_retries":                 {retries, `{"max_retries": 0}`, func(p *retry.Policy) { p.MaxAttempts, p.MaxRetries = 1, 0 }},
		"max_attempts null clears nothing":               {retries, `{"max_attempts": null}`, func(*retry.Policy) {}},
		"max_retries null next to max_attempts":          {retries, `{"max_attempts": 3, "max_retries": null}`, func(p *retry.Policy) { p.MaxAttempts, p.MaxRetries = 3, 0 }},
		"one of the keys clears the other of two fields": {both, `{"max_attempts": 3}`, func(p *retry.Policy) { p.MaxAttempts, p.MaxRetries = 3, 0 }},
		"both keys replace both fields":                  {both, `{"max_retries": 3, "max_attempts": 9}`, func(p *retry.Policy) { p.MaxAttempts, p.MaxRetries = 9, 3 }},
		"without the keys both fields are unchanged":     {both, `{"jitter": "full"}`, func(*retry.Policy) {}},
		"attempt_cap lowers":                             {filled, `{"attempt_cap": 9}`, func(p *retry.Policy) { p.AttemptCap = 9 }},
		"attempt_cap never raises":                       {filled, `{"attempt_cap": 11}`, func(*retry.Policy) {}},
		"attempt_cap 0 does not remove the cap":          {filled, `{"attempt_cap": 0}`, func(*retry.Policy) {}},
		"attempt_cap where no cap was set":               {noCap, `{"attempt_cap": 99}`, func(p *retry.Policy) { p.AttemptCap = 99 }},
		"attempt_cap does not replace an invalid one":    {retry.Policy{AttemptCap: -1}, `{"attempt_cap": 99}`, func(*retry.Policy) {}},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := test.from, test.from
			test.set(&want)
			require.NoError(t, json.Unmarshal([]byte(test.text), &got))
			assert.Equal(t, want, got)
			if got = test.from; test.text != "null" {
				require.NoError(t, got.UnmarshalText([]byte(test.text)))
				assert.Equal(t, want, got)
			}
		})
	}
}

// MarshalJSON writes exactly the keys that UnmarshalJSON reads and that the docs list.
func TestConfigKeys(t *testing.T) {
	var indented bytes.Buffer
	require.NoError(t, json.Indent(&indented, []byte(fullPolicyJSON), "", " "))
	var written []string
	for _, key := range regexp.MustCompile(`(?m)^ "(\w+)":`).FindAllStringSubmatch(indented.String(), -1) {
		written = append(written, key[1])
	}
	require.Len(t, written, 13)

	var p retry.Policy
	err := json.Unmarshal([]byte(`{"?": 0}`), &p)
	assert.ErrorContains(t, err, "the keys of a policy are "+strings.Join(written, ", "))

	page, err := os.ReadFile("docs/text-form.md")
	require.NoError(t, err)
	table := regexp.MustCompile(`(?m)^key .*\n((?:\w.*\n)+)`).FindSubmatch(page)
	require.NotNil(t, table)
	var documented []string
	for line := range strings.Lines(string(table[1])) {
		documented = append(documented, strings.Fields(line)[0])
	}
	assert.Equal(t, written, documented)
}

func TestConfigEncodeErrors(t *testing.T) {
	const (
		backoff = ", which has no text form: use Fixed, Linear, Exponential, Fibonacci or Schedule"
		jitter  = ", which has no text form: use FullJitter, EqualJitter or Proportional"
	)
	for want, p := range map[string]retry.Policy{
		"retry: Backoff is a retry.BackoffFunc" + backoff:                    {Backoff: retry.BackoffFunc(nil)},
		"retry: Backoff is a retry_test.foreign" + backoff:                   {Backoff: foreign{}},
		"retry: Backoff is an empty Schedule: use nil for no delay":          {Backoff: retry.Schedule{}},
		"retry: Jitter is a retry_test.foreign" + jitter:                     {Jitter: foreign{}},
		"retry: invalid policy: Jitter: Spread is 3: write FullJitter, ":     {Jitter: retry.EqualJitter + 1},
		"retry: invalid policy: MaxDelay is -1ns: write 0 for none, or a po": {MaxDelay: -1},
		"retry: invalid policy: MaxAttempts is -2: ":                         {MaxAttempts: -2},
		"retry: invalid policy: Backoff: Exponential.Factor is NaN: ":        {Backoff: retry.Exponential{Factor: math.NaN()}},
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

func TestConfigKeepsFieldsWithoutAKey(t *testing.T) {
	p := retry.Policy{
		RetryIf:  func(error) bool { return true },
		Classify: func(error) *retry.Class { return nil },
		Wait:     func(context.Context, time.Duration) (time.Duration, error) { return 0, nil },
		OnEvent:  func(context.Context, retry.Event) {},
		Source:   func() uint64 { return 0 },
	}
	want := p
	want.MaxAttempts, want.Jitter = 4, retry.FullJitter
	data, err := json.Marshal(p)
	require.NoError(t, err)
	assert.Equal(t, `{}`, string(data))
	require.NoError(t, json.Unmarshal([]byte(`{"max_attempts": 4, "jitter": "full"}`), &p))
	assert.Equal(t, fmt.Sprintf("%#v", want), fmt.Sprintf("%#v", p), "the functions are unchanged")
}

// flag.TextVar makes a flag for a policy. If the text of the flag lacks a key, the value of the
// default applies.
func TestFlagKeepsTheDefaultOfAKeyLeftOut(t *testing.T) {
	parse := func(args ...string) (p retry.Policy, output string, err error) {
		var b strings.Builder
		flags := flag.NewFlagSet("service", flag.ContinueOnError)
		flags.SetOutput(&b)
		flags.TextVar(&p, "retry", retry.Default(), "the retry `policy`")
		err = flags.Parse(args)
		return p, b.String(), err
	}
	p, _, err := parse(`-retry={"max_attempts": 5}`)
	require.NoError(t, err)
	assert.Equal(t, retry.Default(), p)

	_, _, err = parse("-retry", `{"max_delay": 5}`)
	assert.EqualError(t, err, `invalid value "{\"max_delay\": 5}" for flag -retry: retry: invalid policy: max_delay is 5: write a duration as text, such as "200ms" or "1m30s"`)

	_, usage, err := parse("-h")
	require.ErrorIs(t, err, flag.ErrHelp)
	assert.Contains(t, usage, `(default {"max_attempts":5,"backoff":{"type":"exponential","base":"200ms","factor":2},"max_delay":"5s","jitter":0.5})`)
}

// If YAML has a value that JSON cannot express, the error names this value like any other value.
func TestConfigYAMLValuesWithoutJSON(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{
		{map[string]any{"jitter": math.Inf(1)}, `jitter is "+Inf": write `},
		{map[string]any{"jitter": math.NaN()}, `jitter is "NaN": write `},
		{map[string]any{"max_delay": time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)}, `max_delay is "2020-01-02T00:00:00Z": write `},
		{map[any]any{1: 2}, `unknown key "1": `},
		{map[string]any{"backoff": map[any]any{"type": "fixed", "base": "1s", true: 1}}, `unknown key "backoff.true": `},
		{map[string]any{"backoff": map[any]any{"type": "schedule", "delays": []any{map[any]any{1: math.Inf(-1)}}}}, `backoff.delays[0] is {"1":"-Inf"}: write `},
		{map[string]any{"max_attempts": 3.0}, `max_attempts is 3.0: write `},
		{map[string]any{"max_delay": "<5s & \u2028"}, `max_delay is "<5s & \u2028": write `},
		{map[string]any{"max_attempts": uint64(math.MaxUint64)}, `max_attempts is 18446744073709551615: write `},
		{[]any{}, `got [], want `},
		{map[string]any{"jitter": "0.5e0"}, `jitter is "0.5e0": write `},
		{map[string]any{"max_attempts": "1e1"}, `max_attempts is "1e1": write `},
		{map[string]any{"max_delay": "1e3"}, `max_delay is "1e3": write `},
		{map[string]any{"jitter": func() {}}, `jitter is "0x`},
	} {
		p := retry.Policy{MaxAttempts: 7}
		err := p.UnmarshalYAML(func(v any) error { *v.(*any) = test.value; return nil })
		require.ErrorContains(t, err, "retry: invalid policy: "+test.want)
		assert.Equal(t, retry.Policy{MaxAttempts: 7}, p)
	}

	p := retry.Policy{MaxAttempts: 7}
	broken := errors.New("yaml: unmarshal errors:\n  line 3: mapping key already defined")
	assert.EqualError(t, p.UnmarshalYAML(func(any) error { return broken }),
		"retry: invalid policy: yaml: unmarshal errors: line 3: mapping key already defined", "the error of the YAML library is written on one line, with its line number")
	require.NoError(t, p.UnmarshalYAML(func(any) error { return nil }), "null")
	assert.Equal(t, retry.Policy{MaxAttempts: 7}, p)
}

// If a file had only wrong values, an error with all of them would be many times as long as the
// file.
func TestConfigErrorsNameAtMostTwentyFaults(t *testing.T) {
	list := func(n int, entry string) string { return strings.TrimSuffix(strings.Repeat(entry+",", n), ",") }
	numbered := func(n int) string {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = fmt.Sprintf(`"key%06d":1`, i)
		}
		return strings.Join(keys, ",")
	}
	size := rounds(1<<17, 4<<20)
	for _, row := range []struct {
		name, text string
		more       string // the end of the error; "" if it names every fault
	}{
		{"twenty delays", `{"backoff":{"type":"schedule","delays":[` + list(20, `1`) + `]}}`, ""},
		{"twenty-one delays", `{"backoff":{"type":"schedule","delays":[` + list(21, `1`) + `]}}`, "; and 1 more"},
		{"many delays", `{"backoff":{"type":"schedule","delays":[` + list(size/32, `"a"`) + `]}}`, fmt.Sprintf("; and %d more", size/32-20)},
		{"unknown keys", `{` + numbered(2000) + `}`, ""},
		{"duplicate keys", `{` + numbered(2000) + `,` + numbered(2000) + `}`, "; and 1981 more"},
		{"one long value", `{"max_delay":"` + strings.Repeat("a", size) + `"}`, ""},
		{"one long key", `{"` + strings.Repeat("k", size) + `":1}`, ""},
		{"one long text", `"` + strings.Repeat("k", size) + `"`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			var p retry.Policy
			err := json.Unmarshal([]byte(row.text), &p)
			require.Error(t, err)
			assert.Less(t, len(err.Error()), 4096)
			assert.Equal(t, row.more, regexp.MustCompile("; and [0-9]+ more$").FindString(err.Error()))
			assert.Zero(t, p)
		})
	}
	t.Run("Validate", func(t *testing.T) {
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Schedule(slices.Repeat([]time.Duration{-1}, 1000))}
		assert.True(t, strings.HasSuffix(p.Validate().Error(), "Backoff: Schedule[19] is -1ns: write 0 for no delay, or a positive duration; and 980 more"))
		p.Backoff = retry.Schedule(slices.Repeat([]time.Duration{-1}, 20))
		assert.True(t, strings.HasSuffix(p.Validate().Error(), "Backoff: Schedule[19] is -1ns: write 0 for no delay, or a positive duration"))
	})
}

type foreign struct{}

func (foreign) Delay(int) time.Duration                       { return 0 }
func (foreign) Window(d time.Duration) (lo, hi time.Duration) { return d, d }
func (foreign) Error() string                                 { return "foreign" }

// policyFrom makes a policy from the numbers of a fuzzer. A policy of kind 6 or above, or of
// jitter 4 or above, has no text form.
func policyFrom(attempts, retries, ceiling int, nonRetryable bool, kind uint8, base int64, factor float64, rest int64, jitter uint8, share float64) retry.Policy {
	d, r := time.Duration(base), time.Duration(rest)
	return retry.Policy{
		MaxAttempts: attempts, MaxRetries: retries, AttemptCap: ceiling, NonRetryable: nonRetryable,
		MaxDelay: r, MaxRetryAfter: r / 3, MaxElapsed: r / 5, AttemptTimeout: r / 7, HealthyAfter: r / 9,
		RetryAfter: []retry.RetryAfterMode{retry.RetryAfterSpread, retry.RetryAfterAtLeast, retry.RetryAfterExact, "later"}[uint64(rest)%4],
		Backoff: []retry.Backoff{
			nil, retry.Fixed(d), retry.Linear(d), retry.Fibonacci(d), retry.Exponential{Base: d, Factor: factor}, retry.Schedule{d, d / 3, 0},
			retry.BackoffFunc(nil), retry.BackoffFunc(func(attempt int) time.Duration { return d * time.Duration(attempt) }), negative{},
		}[kind%9],
		Jitter: []retry.Jitter{
			nil, retry.FullJitter, retry.EqualJitter, retry.Proportional(share), foreign{}, fixedWindow{r / 2, -r}, fixedWindow{d, math.MaxInt64},
		}[jitter%7],
	}
}

// Every valid policy with types of this package can be written, and reading it back gives the same
// policy.
func FuzzConfigRoundTrip(f *testing.F) {
	f.Add(5, 0, 0, false, uint8(4), int64(200*time.Millisecond), 2.0, int64(5*time.Second), uint8(3), 0.2)
	f.Add(-1, -1, 1, true, uint8(5), int64(math.MaxInt64), 1.0000000000000002, int64(math.MaxInt64), uint8(3), 5e-324)
	f.Add(math.MaxInt, 0, math.MaxInt, true, uint8(4), int64(1), math.MaxFloat64, int64(1), uint8(1), 1.0)
	f.Add(0, 3, 0, false, uint8(4), int64(1), 1e21, int64(0), uint8(2), 0.1+0.2)
	f.Add(-7, -7, -7, false, uint8(6), int64(-1), math.NaN(), int64(-1), uint8(4), math.Inf(-1))
	f.Fuzz(func(t *testing.T, attempts, retries, ceiling int, nonRetryable bool, kind uint8, base int64, factor float64, rest int64, jitter uint8, share float64) {
		p := policyFrom(attempts, retries, ceiling, nonRetryable, kind, base, factor, rest, jitter, share)
		ours := kind%9 < 6 && jitter%7 < 4
		if _, err := p.MarshalJSON(); err == nil {
			assertRoundTrip(t, p)
		} else if ours {
			require.EqualError(t, err, "retry: "+p.Validate().Error())
		}
		if !ours {
			_, err := p.MarshalJSON()
			require.Error(t, err)
		}
	})
}

// If decoding fails, the error has one line, and the policy is unchanged. Otherwise the policy is
// valid, and can be written and read again.
func FuzzConfigDecode(f *testing.F) {
	for _, text := range []string{fullPolicyJSON, `{"max_retries":0}`, `null`, `{"max_attempts":-1}`, `{"jitter":"equal","jitter":0}`,
		`{"backoff":{"type":"exponential","base":"1s","factor":1.1}}`, `{"backoff":"fixed"}`, `{"max_delay":5}`, `{"a\u2028b\r":1}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		filled := retry.Policy{MaxRetries: 3, AttemptCap: 4, Jitter: retry.EqualJitter}
		over := filled
		if err := over.UnmarshalText(text); err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "retry: invalid policy: "), "%q", err)
			require.NotContains(t, err.Error(), "\n")
			require.Equal(t, filled, over)
			return
		}
		require.True(t, over.AttemptCap > 0 && over.AttemptCap <= 4)
		var p retry.Policy
		require.NoError(t, p.UnmarshalText(text))
		assertRoundTrip(t, p)
		require.NoError(t, p.Validate())
	})
}

// The text form has RetryAfterMode("spread"), which is the same as RetryAfterSpread.
func TestRetryAfterModeSpreadInText(t *testing.T) {
	zero, written := everySecond, everySecond
	written.RetryAfter = "spread"
	require.NoError(t, written.Validate())
	a := retry.Attempt{Number: 1, Err: retry.After(3*time.Second, errBoom), Seed: 7}
	assert.Equal(t, zero.Next(a), written.Next(a))
	assert.Equal(t, zero.String(), written.String())

	want, err := zero.MarshalJSON()
	require.NoError(t, err)
	got, err := written.MarshalJSON()
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "spread is left out, because it is the zero value")
	yaml, err := written.MarshalYAML()
	require.NoError(t, err)
	assert.NotContains(t, fmt.Sprintf("%+v", yaml), "spread")
}

// Keys returns exactly the keys that decoding knows.
func TestKeys(t *testing.T) {
	assert.Len(t, topKeys(), 13)
	assert.Equal(t, "backoff.type", retry.Keys()[slices.Index(retry.Keys(), "backoff")+1])
	within := map[string][]string{}
	for _, key := range retry.Keys() {
		if of, inner, ok := strings.Cut(key, "."); ok {
			within[of] = append(within[of], inner)
		}
	}
	err := json.Unmarshal([]byte(`{"?": 0}`), new(retry.Policy))
	assert.ErrorContains(t, err, "the keys of a policy are "+strings.Join(topKeys(), ", "))
	err = json.Unmarshal([]byte(`{"budget": {"?": 0}}`), new(retry.Policy))
	assert.ErrorContains(t, err, "the keys of a budget are "+strings.Join(within["budget"], ", "))
	assert.Equal(t, []string{"type", "base", "factor", "delays"}, within["backoff"])
	assert.Len(t, within, 2)
}
