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

// Each row of testdata/beside.yaml has the notes and findings about the settings next to a block.
func TestSettingsNextToABlockAreRead(t *testing.T) {
	data, err := os.ReadFile("testdata/beside.yaml")
	require.NoError(t, err)
	type row struct {
		Name, Text, At, Lint string
		Notes                []string
		Budget               bool
	}
	var rows []row
	require.NoError(t, yaml.Unmarshal(data, &rows))
	rows = append(rows, row{
		Name: "Envoy, many clusters",
		Text: "{static_resources: {clusters: [{name: a}" + strings.Repeat(", {}", 300) + "], routes: [{route: {cluster: a, retry_policy: {retry_on: 5xx}}}]}}",
		Notes: []string{
			"static_resources.clusters: of these 301 elements, only the first 300 are read",
			"max_retries: each Envoy allows 3 retries to a at the same time; in an outage, calls reach this limit before their own limit on retries",
			"timeout: 15s, the default of Envoy, ends all attempts and waits together",
		},
	})
	for _, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			file, err := Parse("file.yaml", []byte(row.Text))
			require.NoError(t, err)
			block, fault := file.Only(row.At)
			require.Nil(t, fault)
			p, _, faults := block.Read("")
			require.Empty(t, faults)
			assert.Equal(t, row.Notes, block.Notes)
			texts := ""
			for _, w := range append(block.warnings, block.lintBounds(p)...) {
				texts += w.text
			}
			assert.Equal(t, row.Lint, texts)
			assert.Equal(t, row.Budget, p.Budget != nil)
		})
	}
}

// An attempt fits if it ends before the timeout All, or at the same time. If no timeout limits the
// attempt itself, it fits if it starts before the timeout All.
func TestAttemptFitsIfItEndsInTime(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}
	for name, test := range map[string]struct {
		all, each time.Duration
		want      int
	}{
		"no bound":           {0, time.Second, -1},
		"to the nanosecond":  {8 * time.Second, 2 * time.Second, 3},
		"a nanosecond less":  {8*time.Second - 1, 2 * time.Second, 2},
		"not even the first": {time.Second, 2 * time.Second, 0},
		"a start before All": {2*time.Second + 1, 0, 3},
		"a start at All":     {2 * time.Second, 0, 2},
		"only the first":     {1, 0, 1},
	} {
		assert.Equal(t, test.want, (&Bounds{All: test.all, Each: test.each}).Fits(p), name)
	}
}
