package policyfile

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// Every block of any file can be read without a panic, and the line of every fault is in the file.
func FuzzRead(f *testing.F) {
	texts := []string{
		"a: &a {jitter: 2}\nretry: {<<: [*a, {x: 1}], max_delay: 5}\n---\n[1]",
		`{"retry": {"max_retries": -1, "backoff": 5, "backoff_type": "cubic", "a": {"b": [1e400]}}, "work_config": null}`,
		"&a [*a]", "<<: x", "? {a: 1}\n: 2", "max_elapsed: 1m\n", "\xff", "!!binary x", "2001-01-01: .inf",
		"retry:\n\n\n  backoff:\n    delays: [1, 2]\n    type: schedule",
	}
	for _, file := range []string{"testdata/cases.yaml", "testdata/beside.yaml"} {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		var rows []struct{ Text string }
		require.NoError(f, yaml.Unmarshal(data, &rows))
		for _, row := range rows {
			texts = append(texts, row.Text)
		}
	}
	for _, text := range texts {
		f.Add(text, "")
		f.Add(text, "*.*")
	}
	f.Fuzz(func(t *testing.T, text, at string) {
		lines := 2 + strings.Count(text, "\n") + strings.Count(text, "\r") // yaml may report a line after the last line of the text
		for _, name := range []string{"file.yaml", "file.json", "file"} {
			file, err := Parse(name, []byte(text))
			if err != nil {
				fault := err.(*Fault)
				assert.True(t, 1 <= fault.Line && fault.Line <= lines, err)
				continue
			}
			for _, block := range file.Find(at) {
				for _, from := range append(Dialects(), "") {
					p, _, faults := block.Read(from)
					for _, fault := range append(faults, block.Lint(p)...) {
						assert.True(t, 1 <= fault.Line && fault.Line <= lines, fault)
						assert.NotEmpty(t, fault.Text)
						assert.NotContains(t, fault.Text, "\n")
					}
				}
			}
		}
	})
}
