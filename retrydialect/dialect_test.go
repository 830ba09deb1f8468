package retrydialect_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	goccy "github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
	"github.com/goretry/retry/retrytest"
)

// dialects returns a new struct of each dialect. The key is the name of its file in testdata.
var dialects = map[string]func() dialect{
	"tasker":     func() dialect { return new(retrydialect.Tasker) },
	"argyll":     func() dialect { return new(retrydialect.Argyll) },
	"taskharbor": func() dialect { return new(retrydialect.TaskHarbor) },
}

type dialect interface {
	Policy() (retry.Policy, error)
	UnmarshalYAML(unmarshal func(any) error) error
}

// A row is a block, and the policy or the error that it becomes.
type row struct {
	Name     string
	YAML     string
	JSON     json.RawMessage // nil: the YAML, converted to JSON
	Attempts int             // -1: unlimited
	From     int             // the attempt before the first of Delays; 0: 1
	Delays   []string        // the delays; with jitter, the shortest delays
	Greatest []string        // with jitter, the longest delays
	Lint     string
	Error    string
}

func readRows(t testing.TB, name string) (rows []row) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &rows))
	require.NotEmpty(t, rows)
	for i := range rows {
		if rows[i].JSON == nil {
			var value any
			require.NoError(t, yaml.Unmarshal([]byte(rows[i].YAML), &value))
			rows[i].JSON, err = json.Marshal(value)
			require.NoError(t, err)
		}
	}
	return rows
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

// check compares the policy or the error of the block with the row.
func (r row) check(t *testing.T, p retry.Policy, err error) {
	t.Helper()
	if r.Error != "" {
		require.EqualError(t, err, r.Error)
		assert.Zero(t, p, "an invalid block gives the zero policy, which makes one attempt")
		return
	}
	require.NoError(t, err)
	require.NoError(t, p.Validate())
	assertAttempts(t, p, r.Attempts)
	assert.Equal(t, r.Greatest != nil, p.Jitter != nil, "the policy has jitter only if the block sets it")

	decisions := []retrytest.Row{{Attempts: 0, Eligible: true}}
	for i, least := range r.Delays {
		greatest := least
		if r.Greatest != nil {
			greatest = r.Greatest[i]
		}
		decisions = append(decisions, retrytest.Row{
			Attempts: max(1, r.From) + i, Eligible: true, Reason: retry.ReasonRetry,
			Lo: duration(t, least), Hi: duration(t, greatest),
		})
	}
	if r.Attempts != retry.Unlimited {
		decisions = append(decisions, retrytest.Row{Attempts: r.Attempts, Eligible: false})
	}
	retrytest.Table(t, p, decisions)

	if r.Lint == "" {
		assert.Empty(t, p.Lint())
	} else {
		require.Len(t, p.Lint(), 1)
		assert.Contains(t, p.Lint()[0].InKeys(), r.Lint)
	}
}

// Each fault of decoding and of Policy is a finding with its key. Keys returns each key that a
// block may have.
func TestFindings(t *testing.T) {
	type finding struct{ code, key, text string }
	for name, row := range map[string]struct {
		dialect dialect
		text    string
		want    []finding
	}{
		"Tasker, decoding": {new(retrydialect.Tasker), `{"max_attempts": "3", "backof": "none"}`, []finding{
			{"invalid_value", "max_attempts", `max_attempts is "3": write a whole number, such as 3`},
			{"unknown_key", "backof", `unknown key "backof": the keys of Tasker are retryable, max_attempts, backoff, backoff_base_ms, max_backoff_ms`}}},
		"Tasker, a value":  {new(retrydialect.Tasker), `{"max_attempts": 0}`, []finding{{"invalid_value", "max_attempts", "max_attempts is 0: write how often to execute in all, 1 or more"}}},
		"Argyll, a value":  {new(retrydialect.Argyll), `{"max_retries": -2}`, []finding{{"invalid_value", "max_retries", "max_retries is -2: write how often to execute after the first time, or -1 for unlimited"}}},
		"Argyll, decoding": {new(retrydialect.Argyll), `[]`, []finding{{"invalid_value", "", `got [], want a mapping such as {"max_retries": 3}`}}},
		"TaskHarbor, null": {new(retrydialect.TaskHarbor), `null`, []finding{{"invalid_value", "",
			"got null: decode into a *TaskHarbor, which null sets to nil, for one attempt; or leave the key out"}}},
		"TaskHarbor, a value": {new(retrydialect.TaskHarbor), `{"jitter": 2}`, []finding{{"invalid_value", "jitter", "jitter is 2: write a share of at most 1, such as 0.2 for ±20 %, or 0 for none"}}},
	} {
		t.Run(name, func(t *testing.T) {
			err := row.dialect.(json.Unmarshaler).UnmarshalJSON([]byte(row.text))
			if err == nil {
				_, err = row.dialect.Policy()
			}
			var found interface{ Findings() []retry.Finding }
			require.ErrorAs(t, err, &found)
			var got []finding
			for _, f := range found.Findings() {
				assert.Equal(t, f.String(), f.InKeys())
				got = append(got, finding{f.Code, f.Key, f.InKeys()})
			}
			assert.Equal(t, row.want, got)
		})
	}
	for name, newDialect := range dialects {
		d := newDialect()
		err := d.(json.Unmarshaler).UnmarshalJSON([]byte(`{"?": 0}`))
		assert.ErrorContains(t, err, " are "+strings.Join(d.(interface{ Keys() []string }).Keys(), ", "), name)
	}
}

// libraries are the libraries that read and write blocks.
var libraries = []struct {
	name      string
	unmarshal func([]byte, any) error
	marshal   func(any) ([]byte, error)
}{
	{"encoding/json", json.Unmarshal, json.Marshal},
	{"go.yaml.in/yaml/v3", yaml.Unmarshal, yaml.Marshal},
	{"goccy/go-yaml", goccy.Unmarshal, goccy.Marshal},
}

// load decodes a block with the strict option of the library.
func load(text string, into dialect) error {
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	return d.Decode(into)
}

func TestBlocks(t *testing.T) {
	for name, newDialect := range dialects {
		for _, r := range readRows(t, name) {
			for form, decode := range map[string]func(dialect) error{
				"JSON": func(d dialect) error { return json.Unmarshal(r.JSON, d) },
				"the values of a YAML library": func(d dialect) error {
					return d.UnmarshalYAML(func(v any) error { return decodeNumbers(r.JSON, v) })
				},
				"YAML":         func(d dialect) error { return load(r.YAML, d) },
				"JSON as YAML": func(d dialect) error { return load(string(r.JSON), d) },
			} {
				t.Run(name+"/"+r.Name+"/"+form, func(t *testing.T) {
					d := newDialect()
					var p retry.Policy
					err := decode(d)
					if err == nil {
						p, err = d.Policy()
					}
					r.check(t, p, err)
					if err == nil {
						same := newDialect()
						require.NoError(t, json.Unmarshal(r.JSON, same))
						assert.Equal(t, same, d, "JSON gives the same")
					}
				})
			}
		}
	}
}

// assertAttempts checks that p allows this many attempts, and that Eligible and Next agree.
func assertAttempts(t *testing.T, p retry.Policy, limit int) {
	t.Helper()
	assert.Equal(t, limit, p.EffectiveMax())
	for _, attempts := range []int{math.MinInt, -1, 0, 1, 2, limit - 1, limit, 1_000_000, math.MaxInt} {
		want := attempts <= 0 || limit == retry.Unlimited || attempts < limit
		assert.Equal(t, want, p.Eligible(attempts), "Eligible(%d) of %d", attempts, limit)
		if attempts > 0 {
			assert.Equal(t, want, p.Next(retry.Attempt{Number: attempts}).Retry(), "Next after %d of %d", attempts, limit)
		}
	}
}

func decodeNumbers(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

// YAML libraries return numbers as several types, and write values that are not numbers in
// several ways.
func TestNumbers(t *testing.T) {
	for _, tc := range []struct {
		value any
		is    string // the value in the fault; "": no fault, and the value is 16
	}{
		{16, ""}, {int64(16), ""}, {uint64(16), ""},
		{uint64(math.MaxUint64), "18446744073709551615: write a whole number closer to 0"},
		{3.0, "3.0: write a whole number"}, {1e20, "1e+20: write a whole number"}, {math.NaN(), `"NaN": write a whole number`},
		{map[any]any{1: 2}, `{"1":2}: write a whole number`},
	} {
		var d retrydialect.TaskHarbor
		err := d.UnmarshalYAML(func(v any) error {
			*v.(*any) = map[string]any{"max_attempts": tc.value, "multiplier": 4, "jitter": 0.5}
			return nil
		})
		if tc.is != "" {
			require.ErrorContains(t, err, "max_attempts is "+tc.is)
			continue
		}
		require.NoError(t, err, "%T", tc.value)
		assert.Equal(t, [3]any{16, 4.0, 0.5}, [3]any{d.MaxAttempts, d.Multiplier, d.Jitter}, "%T", tc.value)
	}
	require.ErrorContains(t, json.Unmarshal([]byte(`{"jitter": 1e999}`), new(retrydialect.TaskHarbor)), "jitter is 1e999: write a number, such as 0.5")
	for text, is := range map[string]string{
		"multiplier: .inf": `"+Inf"`, "jitter: 1e999": `"1e999"`, // YAML parses 1e999 as text
		"max_attempts: 1e3": "1000.0", "max_attempts: -99999999999999999999": "-1e+20", "max_attempts: 9223372036854775808": "9223372036854775808",
		"max_delay: '1e1'": `"1e1"`, "jitter: '1e-07'": `"1e-07"`, "max_attempts: '1.0e1'": `"1.0e1"`, // a text is not a number, and the fault shows it unchanged
	} {
		for _, lib := range libraries[1:] {
			key, _, _ := strings.Cut(text, ":")
			var h retrydialect.TaskHarbor
			err := lib.unmarshal([]byte(text), &h)
			if lib.name == "goccy/go-yaml" && !strings.Contains(text, "'") { // goccy/go-yaml parses other numbers
				require.ErrorContains(t, err, key+" is ", text)
				continue
			}
			require.ErrorContains(t, err, key+" is "+is+": write a ", "%s: %s", lib.name, text)
			assert.Zero(t, h)
		}
	}
	var tasker retrydialect.Tasker
	require.NoError(t, yaml.Unmarshal([]byte("max_attempts: 0x10"), &tasker))
	assert.Equal(t, 16, *tasker.MaxAttempts)
}

// If a block cannot be read, the struct is unchanged, and so are the values of its pointers.
func TestBlocksThatCannotBeRead(t *testing.T) {
	five := 5
	for name, d := range map[string]dialect{
		"tasker":     &retrydialect.Tasker{MaxAttempts: &five},
		"argyll":     &retrydialect.Argyll{MaxRetries: 5},
		"taskharbor": &retrydialect.TaskHarbor{MaxAttempts: 5},
	} {
		before, err := json.Marshal(d)
		require.NoError(t, err)
		for text, fault := range map[string]string{
			"": "retrydialect: ", "{": "retrydialect: ", `{"jitter": 1,`: "retrydialect: ", "{]": "retrydialect: ",
			`{"max_attempts": 7, "max_retries": 7, "limit": 3}`: `unknown key "limit"`,
			`{"max_attempts": "7", "max_retries": "7"}`:         `is "7": write a whole number`,
			`{"jitter": 0, "backoff": 1, "jitter": null}`:       `: duplicate key "jitter"`,
		} {
			require.ErrorContains(t, d.(json.Unmarshaler).UnmarshalJSON([]byte(text)), fault, name)
		}
		for text, fault := range map[string]string{"3: max_attempts\n": `unknown key "3": `, "max_attempts: 3\nmax_attempts: 4\n": "max_attempts"} {
			err := load(text, d)
			require.ErrorContains(t, err, fault, name)
			assert.NotContains(t, err.Error(), "\n", name)
		}
		err = d.UnmarshalYAML(func(any) error { return errors.New("yaml: unmarshal errors:\n  line 2: no such anchor") })
		require.ErrorContains(t, err, ": yaml: unmarshal errors: line 2: no such anchor", name)
		after, err := json.Marshal(d)
		require.NoError(t, err)
		assert.Equal(t, string(before), string(after), name)
	}
}

// A null is an error for a TaskHarbor that is not a pointer: it would become a policy whose
// limit a job can raise.
func TestNullNeedsAPointerToATaskHarbor(t *testing.T) {
	const fault = "retrydialect: TaskHarbor: got null: decode into a *TaskHarbor, which null sets to nil, for one attempt; or leave the key out"
	var config struct{ H retrydialect.TaskHarbor }
	require.ErrorContains(t, json.Unmarshal([]byte(`{"h": null}`), &config), fault)
	require.EqualError(t, config.H.UnmarshalYAML(func(any) error { return nil }), fault)
	require.NoError(t, yaml.Unmarshal([]byte("h: ~"), &config), "go.yaml.in/yaml skips a null without a call of UnmarshalYAML")
	assert.Zero(t, config.H)
}

// A block over a TaskHarbor whose fields were set to zero does not start from the defaults.
func TestABlockOverZerosKeepsThem(t *testing.T) {
	for _, lib := range libraries {
		zeros, err := lib.marshal(retrydialect.TaskHarbor{})
		require.NoError(t, err, lib.name)
		var h retrydialect.TaskHarbor
		for _, block := range []struct {
			text string
			want retrydialect.TaskHarbor
		}{
			{string(zeros), h},
			{`{}`, h},
			{`{"max_attempts": 4}`, retrydialect.TaskHarbor{MaxAttempts: 4}},
			{`{"max_attempts": 0}`, h},
			{`{"jitter": 0.5}`, retrydialect.TaskHarbor{Jitter: 0.5}},
		} {
			require.NoError(t, lib.unmarshal([]byte(block.text), &h), lib.name)
			assert.EqualExportedValues(t, block.want, h, "%s: %s", lib.name, block.text)
		}
	}
}

// If a block is decoded over another block, a key that is left out leaves its field unchanged.
func TestABlockOverABlockKeepsOtherFields(t *testing.T) {
	var tasker retrydialect.Tasker
	require.NoError(t, json.Unmarshal([]byte(`{"max_attempts": 3, "backoff": "linear", "backoff_base_ms": 100}`), &tasker))
	require.NoError(t, json.Unmarshal([]byte(`{"max_attempts": 2, "backoff_base_ms": null}`), &tasker))
	p, err := tasker.Policy()
	require.NoError(t, err)
	assert.Equal(t, retry.Policy{MaxAttempts: 2, Backoff: retry.Linear(100 * time.Millisecond)}, p)

	var argyll retrydialect.Argyll
	require.NoError(t, json.Unmarshal([]byte(`{"max_retries": 3, "backoff": 100, "backoff_type": "fixed"}`), &argyll))
	require.NoError(t, json.Unmarshal([]byte(`{"init_backoff": 200}`), &argyll))
	p, err = argyll.Policy()
	require.NoError(t, err)
	assert.Equal(t, retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(200 * time.Millisecond)}, p)

	harbor := retrydialect.TaskHarbor{BaseDelay: time.Second}
	require.NoError(t, json.Unmarshal([]byte(`{"max_attempts": 4}`), &harbor))
	assert.Equal(t, retrydialect.TaskHarbor{BaseDelay: time.Second, MaxAttempts: 4}, harbor, "only a zero TaskHarbor starts from the defaults")
}

func TestBlocksInsideAConfiguration(t *testing.T) {
	for _, lib := range libraries {
		var config struct {
			WorkConfig *retrydialect.Argyll     `json:"work_config" yaml:"work_config"`
			Harbor     *retrydialect.TaskHarbor `json:"harbor"`
		}
		require.NoError(t, lib.unmarshal([]byte(`{"work_config": {"max_retries": 1}, "harbor": null}`), &config), lib.name)
		assert.Equal(t, &retrydialect.Argyll{MaxRetries: 1}, config.WorkConfig)
		p, err := config.Harbor.Policy()
		require.NoError(t, err)
		assert.Equal(t, retry.Policy{NonRetryable: true}, p, "a null makes one attempt")
	}
}

// A struct can be encoded, and decoded again to the same struct.
func TestRoundTrip(t *testing.T) {
	no, three, zero := false, 3, int64(0)
	for _, lib := range libraries {
		for _, d := range []any{
			&retrydialect.Tasker{},
			&retrydialect.Tasker{Retryable: &no, MaxAttempts: &three, Backoff: "none", BackoffBaseMS: &zero, MaxBackoffMS: &zero},
			&retrydialect.Argyll{},
			&retrydialect.Argyll{MaxRetries: -1, Backoff: 1, MaxBackoff: 2, BackoffType: "fixed", Parallelism: 3},
			&retrydialect.TaskHarbor{Multiplier: 1e21, Jitter: 1e-7, MaxAttempts: 3},
			&retrydialect.TaskHarbor{BaseDelay: math.MaxInt64, MaxDelay: math.MinInt64, Multiplier: 1.1, Jitter: 1e-300, MaxAttempts: math.MinInt},
		} {
			text, err := lib.marshal(d)
			require.NoError(t, err)
			back := reflect.New(reflect.TypeOf(d).Elem()).Interface()
			require.NoError(t, lib.unmarshal(text, back), "%s: %s", lib.name, text)
			assert.Equal(t, d, back, "%s: %s", lib.name, text)
		}
	}
}

// For any text, Policy returns a valid policy, or an error and a policy that makes one attempt.
func FuzzBlocks(f *testing.F) {
	for name := range dialects {
		for _, r := range readRows(f, name) {
			f.Add([]byte(r.JSON))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, newDialect := range dialects {
			d := newDialect()
			if err := json.Unmarshal(text, d); err != nil {
				assert.Equal(t, newDialect(), d, "%s: %v", name, err)
				continue
			}
			p, err := d.Policy()
			if err != nil {
				assert.Zero(t, p, name)
				assert.NotContains(t, err.Error(), "\n", name)
				continue
			}
			require.NoError(t, p.Validate(), name)
			for attempt := range 3 {
				assert.GreaterOrEqual(t, p.Next(retry.Attempt{Number: attempt, Seed: 1}).Delay, time.Duration(0), name)
			}
		}
	})
}
