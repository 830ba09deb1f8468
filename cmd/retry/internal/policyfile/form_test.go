package policyfile

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
)

// Each row of testdata/cases.yaml is read as its system reads it.
func TestCases(t *testing.T) {
	data, err := os.ReadFile("testdata/cases.yaml")
	require.NoError(t, err)
	var cases []struct {
		Name, Text, At, From, Want, Note string
		Line, Attempts                   int
		Delays                           []time.Duration
		Elapsed, Timeout                 time.Duration
	}
	require.NoError(t, yaml.Unmarshal(data, &cases))
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			p, got, line := retry.Policy{}, "", 0
			file, err := Parse("file.yaml", []byte(c.Text))
			if err != nil {
				got = err.Error()
			} else if block, fault := file.Only(c.At); fault != nil {
				got = fault.Text
			} else {
				policy, name, faults := block.Read(c.From)
				p, got = policy, strings.TrimSpace(block.At+" "+name)
				if faults != nil {
					got, line = faults[0].Text, faults[0].Line
				}
				assert.True(t, strings.HasPrefix(strings.Join(block.Notes, "; "), c.Note), block.Notes)
			}
			assert.True(t, strings.HasPrefix(got, c.Want), got)
			if c.Line > 0 {
				assert.Equal(t, c.Line, line)
			}
			if c.Attempts == 0 {
				return
			}
			assert.Equal(t, [3]any{c.Attempts, c.Elapsed, c.Timeout}, [3]any{p.EffectiveMax(), p.MaxElapsed, p.AttemptTimeout})
			for i, want := range c.Delays {
				d := p.Next(retry.Attempt{Number: i + 1, Seed: 1})
				assert.Equal(t, [2]time.Duration{want, want}, [2]time.Duration{d.Lo, d.Hi}, i)
			}
		})
	}
}
