package retrysim

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testdata/behavior.json lists systems, and the means of some counts of one of their services
// over some seconds.
func TestBehavior(t *testing.T) {
	var rows []struct {
		Name, Service string
		System        json.RawMessage
		From, To      int
		Want, Near    map[string]float64
	}
	readRows(t, "testdata/behavior.json", &rows)
	for _, tc := range rows {
		t.Run(tc.Name, func(t *testing.T) {
			r, err := Run(system(t, string(tc.System)), 1)
			require.NoError(t, err)
			n, calls := float64(tc.To-tc.From), 0.0
			got := map[string]float64{}
			for i, row := range r.Services[tc.Service].Seconds[tc.From:tc.To] {
				got["requests"] += float64(row.Requests) / n
				got["refused"] += float64(row.Rejected) / float64(max(1, row.Requests)) / n
				got["busy"] += row.Busy / n
				got["wasted"] += row.Wasted / n
				calls += float64(r.Seconds[tc.From+i].Calls) / n
			}
			got["per_call"] = got["requests"] / calls
			for key, want := range tc.Want {
				assert.InDelta(t, want, got[key], tc.Near[key], key)
			}
		})
	}
}
