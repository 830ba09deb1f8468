package main

import (
	"encoding/xml"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retrysim"
)

// What docs/simulate.md says of each rescue, with less time and fewer runs.
func TestRescues(t *testing.T) {
	all, err := simulateAll(1, "1m30s")
	require.NoError(t, err)
	for i, row := range []struct {
		verdict retrysim.Verdict
		lo, hi  float64 // the margin
	}{
		{retrysim.StaysDown, 140, 152}, {retrysim.StaysDown, 140, 152}, {retrysim.StaysDown, 190, 215},
		{retrysim.Recovers, 290, 300}, {retrysim.Recovers, 275, 300}, {retrysim.StaysDown, 140, 170},
	} {
		a := all[i].answer
		assert.Equal(t, row.verdict, a.Outcome.Verdict, all[i].name)
		assert.True(t, a.Margin >= row.lo && a.Margin <= row.hi, "%s: %v", all[i].name, a.Margin)
	}
	picture := draw(all)
	require.NoError(t, xml.Unmarshal(picture, &struct {
		Inner string `xml:",innerxml"`
	}{}))
	assert.Equal(t, 2*len(all), strings.Count(string(picture), "<polyline"))
}
