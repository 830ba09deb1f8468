package retrydialect_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	goccy "github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
)

// libraries are what a block is read and written with.
var libraries = []struct {
	name      string
	unmarshal func([]byte, any) error
	marshal   func(any) ([]byte, error)
}{
	{"go.yaml.in/yaml/v3", yaml.Unmarshal, yaml.Marshal},
	{"goccy/go-yaml", goccy.Unmarshal, goccy.Marshal},
}

// load decodes a block strictly, as a careful user does.
func load(text string, into dialect) error {
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	return d.Decode(into)
}

func TestBlocksInYAML(t *testing.T) {
	for name, newDialect := range dialects {
		for _, r := range readRows(t, name) {
			// JSON is YAML, too.
			for language, block := range map[string]string{"yaml": r.YAML, "json": string(r.JSON)} {
				t.Run(name+"/"+r.Name+"/"+language, func(t *testing.T) {
					d := newDialect()
					var p retry.Policy
					err := load(block, d)
					if err == nil {
						p, err = d.Policy()
					}
					r.check(t, p, err)
					if err != nil {
						return
					}
					same := newDialect()
					require.NoError(t, json.Unmarshal(r.JSON, same))
					assert.Equal(t, same, d, "JSON gives the same")
				})
			}
		}
	}
}

func TestAKeyThatIsThereTwiceInYAML(t *testing.T) {
	for name, newDialect := range dialects {
		err := load("max_attempts: 3\nmax_attempts: 4\n", newDialect())
		require.ErrorContains(t, err, "max_attempts", name)
		assert.NotContains(t, err.Error(), "\n", name)
	}
}

func TestBlocksInsideAConfigurationInYAML(t *testing.T) {
	var config struct {
		Retry      retrydialect.Tasker
		WorkConfig *retrydialect.Argyll `yaml:"work_config"`
	}
	require.NoError(t, yaml.Unmarshal([]byte("retry:\n  max_attempts: 4\nwork_config:\n  max_retries: 1\n"), &config))
	p, err := config.Retry.Policy()
	require.NoError(t, err)
	assert.Equal(t, 4, p.EffectiveMax())
	p, err = config.WorkConfig.Policy()
	require.NoError(t, err)
	assert.Equal(t, 2, p.EffectiveMax())

	err = yaml.Unmarshal([]byte("retry:\n  max_attempt: 4\n"), &config)
	require.ErrorContains(t, err, `unknown key "max_attempt": `)
}

func TestAKeyThatIsNoText(t *testing.T) {
	err := yaml.Unmarshal([]byte("3: max_attempts\n"), new(retrydialect.Tasker))
	require.ErrorContains(t, err, `unknown key "3": `)
}

func TestAnchors(t *testing.T) {
	var steps map[string]retrydialect.Tasker
	require.NoError(t, yaml.Unmarshal([]byte(`
first: &patient
  max_attempts: 10
  backoff_base_ms: 5000
second: *patient
third:
  <<: *patient
  max_attempts: 3
`), &steps))
	for name, executions := range map[string]int{"first": 10, "second": 10, "third": 3} {
		p, err := steps[name].Policy()
		require.NoError(t, err, name)
		assert.Equal(t, executions, p.EffectiveMax(), name)
		assert.Equal(t, 5*time.Second, p.Next(retry.Attempt{Number: 1}).Delay, name)
	}
}

func TestANullPolicyOfTaskHarborFailsFast(t *testing.T) {
	var config struct{ Retry *retrydialect.TaskHarbor }
	require.NoError(t, yaml.Unmarshal([]byte("retry: null\n"), &config))
	p, err := config.Retry.Policy()
	require.NoError(t, err)
	assert.Equal(t, retry.Policy{NonRetryable: true}, p)
}

func TestNumbersThatAreNone(t *testing.T) {
	for text, fault := range map[string]string{
		"multiplier: .nan": `multiplier is "NaN": write a number, `,
		"multiplier: .inf": `multiplier is "+Inf": write a number, `,
		"jitter: 1e999":    `jitter is "1e999": write a number, `, // which YAML takes for text
		"jitter: -.inf":    `jitter is "-Inf": write a number, `,
	} {
		require.ErrorContains(t, yaml.Unmarshal([]byte(text), new(retrydialect.TaskHarbor)), fault, text)
	}
	// YAML has whole numbers in other bases, and writes one that an int cannot hold as a fraction.
	var tasker retrydialect.Tasker
	require.NoError(t, yaml.Unmarshal([]byte("max_attempts: 0x10"), &tasker))
	assert.Equal(t, 16, *tasker.MaxAttempts)
	for text, shown := range map[string]string{
		"3.0": "3.0", "1e3": "1000.0", "99999999999999999999": "1e+20", "-99999999999999999999": "-1e+20",
		"9223372036854775808": "9223372036854775808",
	} {
		require.ErrorContains(t, yaml.Unmarshal([]byte("max_attempts: "+text), &tasker), "max_attempts is "+shown+": ", text)
	}
	assert.Equal(t, 16, *tasker.MaxAttempts)
}

// What is decoded can be encoded and decoded again.
func TestRoundTripInYAML(t *testing.T) {
	no, three, zero := false, 3, int64(0)
	for _, lib := range libraries {
		for _, d := range []any{
			retrydialect.Tasker{},
			retrydialect.Tasker{Retryable: &no, MaxAttempts: &three, Backoff: "none", BackoffBaseMS: &zero, MaxBackoffMS: &zero},
			retrydialect.Argyll{},
			retrydialect.Argyll{MaxRetries: -1, Backoff: 1, MaxBackoff: 2, BackoffType: "fixed", Parallelism: 3},
			retrydialect.TaskHarbor{Multiplier: 1e21, Jitter: 1e-7, MaxAttempts: 3},
			retrydialect.TaskHarbor{BaseDelay: 1, MaxDelay: -1, Multiplier: 1.1, Jitter: 1e-300, MaxAttempts: -1},
		} {
			text, err := lib.marshal(d)
			require.NoError(t, err)
			var back any
			switch d.(type) {
			case retrydialect.Tasker:
				var b retrydialect.Tasker
				err = lib.unmarshal(text, &b)
				back = b
			case retrydialect.Argyll:
				var b retrydialect.Argyll
				err = lib.unmarshal(text, &b)
				back = b
			case retrydialect.TaskHarbor:
				var b retrydialect.TaskHarbor
				err = lib.unmarshal(text, &b)
				back = b
			}
			require.NoError(t, err, "%s: %s", lib.name, text)
			assert.Equal(t, d, back, "%s: %s", lib.name, text)
		}
	}
}

// Text is no number, whatever it looks like, and is shown as it was written.
func TestNumbersInQuotes(t *testing.T) {
	for _, lib := range libraries {
		for _, key := range []string{"base_delay", "max_delay", "multiplier", "jitter", "max_attempts"} {
			for _, value := range []string{"1e1", "1e-1", "1e-07", "1.0e1"} {
				var h retrydialect.TaskHarbor
				require.ErrorContains(t, lib.unmarshal([]byte(key+": '"+value+"'"), &h), key+` is "`+value+`": write a `, lib.name)
				assert.Zero(t, h, lib.name)
			}
		}
	}
}

// go.yaml.in/yaml passes over a null before it asks a TaskHarbor.
func TestATaskHarborThatIsNullIsAPointerInYAML(t *testing.T) {
	var config struct{ H retrydialect.TaskHarbor }
	require.NoError(t, yaml.Unmarshal([]byte("h: ~"), &config))
	assert.Zero(t, config.H)
}

// A block of zeros is read back as one, also where another is read over it.
func TestATaskHarborOfZeros(t *testing.T) {
	for _, lib := range libraries {
		text, err := lib.marshal(retrydialect.TaskHarbor{})
		require.NoError(t, err, lib.name)
		var h retrydialect.TaskHarbor
		require.NoError(t, lib.unmarshal(text, &h), lib.name)
		require.NoError(t, lib.unmarshal([]byte("max_attempts: 4"), &h), lib.name)
		assert.Equal(t, retrydialect.TaskHarbor{MaxAttempts: 4}, h, lib.name)
	}
}
