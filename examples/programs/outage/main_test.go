package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retrysim"
)

// What docs/simulate.md says of each rescue, with less time and fewer runs.
func TestRescues(t *testing.T) {
	all := rescues()
	for i, row := range []struct {
		back   bool
		lo, hi float64 // the margin
	}{
		{false, 140, 152}, {false, 140, 152}, {false, 190, 215}, {true, 290, 300}, {false, 275, 300}, {false, 140, 170},
	} {
		r := all[i]
		require.NoError(t, r.simulate(1, "1m30s"))
		assert.Equal(t, row.back, r.answer.Verdict == retrysim.Recovers, r.name)
		assert.True(t, r.answer.Margin >= row.lo && r.answer.Margin <= row.hi, "%s: %v", r.name, r.answer.Margin)
	}
	assert.Equal(t, retrysim.Draining, all[4].answer.Verdict, "the budget needs longer")

	var table strings.Builder
	print(&table, all)
	assert.Contains(t, table.String(), "A model, not a measurement")
	lines := 0
	for dec := xml.NewDecoder(strings.NewReader(string(draw(all)))); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if element, ok := token.(xml.StartElement); ok && element.Name.Local == "polyline" {
			lines++
		}
	}
	assert.Equal(t, 2*len(all), lines)
}
