package policyfile

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// besideCall matches code that reads keys next to the settings, or in another document.
var besideCall = regexp.MustCompile(`(?:\.get\([\w.]+, |f\.places\([^,]+, |f\.texts?At\([^,]+, |f\.amount\([^,]+, |(?:budget|percent|least|most): +)((?:"[^"]+"(?:, )?)+)`)

var quotedKey = regexp.MustCompile(`"([^"]+)"`)

// readBy returns the keys that the code reads for each dialect: the keys of the settings, and the
// keys next to them. The keys that the code reads elsewhere in the file, for any dialect, are under
// "".
func readBy(t *testing.T) map[string][]string {
	t.Helper()
	read := map[string][]string{}
	for _, d := range dialects {
		read[d.name] = slices.Clone(d.all)
		if d.format != nil {
			for _, s := range d.format.beside {
				read[d.name] = append(read[d.name], strings.TrimPrefix(s.path, "/"))
			}
		}
	}
	set := &form{
		settings: newSettings(func(key string) string { return key }), times: argoTimes,
		b: &Block{node: new(yaml.Node), beside: &place{key: "containerSet", node: new(yaml.Node)}},
	}
	set.b.reset()
	readArgo(set)
	read["argo"] = append(read["argo"], *set.listed...)
	for _, name := range []string{
		"argo.go", "asynq.go", "envoy.go", "form.go", "grpc.go", "httproute.go", "istio.go",
		"nats.go", "otel.go", "stepfunctions.go", "temporal.go",
	} {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, call := range besideCall.FindAllStringSubmatch(string(source), -1) {
			for _, key := range quotedKey.FindAllStringSubmatch(call[1], -1) {
				read[""] = append(read[""], strings.TrimSuffix(key[1], ".*"))
			}
		}
	}
	return read
}

// The README of the command names each key that is read, in the row of its dialect.
func TestReadmeNamesEveryKey(t *testing.T) {
	data, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(data), "## Keys that the commands read\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	named := map[string][]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || !strings.Contains(cells[1], "`") {
			continue
		}
		name := strings.Trim(cells[1], " `")
		for _, key := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(strings.Join(cells[2:], "|"), -1) {
			named[name] = append(named[name], key[1])
		}
	}
	var all []string
	for _, keys := range named {
		all = append(all, keys...)
	}
	read := readBy(t)
	require.Contains(t, read[""], "retryThrottling")
	require.Contains(t, read[""], "hedge_policy")
	for _, key := range read[""] {
		assert.True(t, slices.ContainsFunc(all, func(k string) bool {
			return k == key || strings.HasSuffix(k, "."+key) || strings.HasPrefix(k, key+".") || strings.Contains(k, "."+key+".")
		}), "%s is read", key)
	}
	for _, d := range dialects {
		for _, key := range read[d.name] {
			assert.Contains(t, named[d.name], key, d.name)
		}
	}
	for name, keys := range named {
		for _, key := range keys {
			assert.True(t, slices.Contains(read[name], key) || slices.ContainsFunc(read[""], func(k string) bool {
				return k == key || strings.HasSuffix(key, "."+k) || strings.HasPrefix(key, k+".") || strings.Contains(key, "."+k+".")
			}), "%s of %s is named, and not read", key, name)
		}
	}
}

// The longest duration means that a sum has overflowed, so no text shows it in hours.
func TestLongestDurationIs292Years(t *testing.T) {
	for name, text := range map[string]string{
		"native":        `{max_attempts: 5, backoff: {type: exponential, base: 1h, factor: 1e9}, max_elapsed: 2562047h47m16.854775807s, attempt_timeout: 2562047h47m16.854s}`,
		"argyll":        `{max_retries: 9, backoff: 9223372036854775, max_backoff: 9223372036854775807, backoff_type: linear}`,
		"temporal":      `{initialInterval: "9223372036.8s", maximumAttempts: 3}`,
		"stepfunctions": `{ErrorEquals: [States.ALL], IntervalSeconds: 99999999, BackoffRate: 1e9, MaxAttempts: 99}`,
		"otel":          `{initial_interval: 9223372036854775807, max_interval: 9223372036854775806, max_elapsed_time: 9223372036854775805}`,
		"nats":          `{max_deliver: 5, ack_policy: explicit, backoff: [9223372036854775807]}`,
		"argo":          `{limit: 3, backoff: {duration: 9223372036854775807, cap: 9223372036854775807}}`,
	} {
		t.Run(name, func(t *testing.T) {
			file, err := Parse("file.yaml", []byte(text))
			require.NoError(t, err)
			block, fault := file.Only("")
			require.Nil(t, fault)
			p, _, faults := block.Read(name)
			texts := append(block.Notes, p.String())
			for _, fault := range append(faults, block.Lint(p)...) {
				texts = append(texts, fault.Text)
			}
			assert.NotContains(t, strings.Join(texts, "; "), "2562047h47m16")
			assert.Contains(t, strings.Join(texts, "; "), "292 years")
		})
	}
}
