package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retrysim"
)

// These are the default simulations of the program. They run once for all tests.
var (
	defaultHerds = sync.OnceValue(func() []herd { return simulateHerds(1, 20) })
	defaultLoads = sync.OnceValue(func() []load { return simulateLoads(1) })
)

// The peak is the largest of a few hundred counts, about 500 for ±20 %. The mean of twenty
// trials is within 2 % of the expected peak. The known peaks are means of five trials. The mean
// wait is the mean of 200,000 clients.
func TestHerdsPeakAsKnown(t *testing.T) {
	peaks, waits := map[string]float64{}, map[string]float64{}
	for _, h := range defaultHerds() {
		assert.InEpsilon(t, h.known[0], h.peak, 0.05, "%s: peak", h.name)
		assert.InEpsilon(t, h.known[1], h.latePeak, 0.05, "%s: later peak", h.name)
		assert.InEpsilon(t, h.known[2], h.meanWait, 0.01, "%s: wait", h.name)
		peaks[h.name], waits[h.name] = h.peak, h.meanWait
	}
	assert.Equal(t, float64(herdSize), peaks["no jitter"], "all clients retry at once")
	assert.Greater(t, peaks["±10 %"], peaks["±20 %"])
	assert.Greater(t, peaks["±20 %"], peaks["±50 %"])
	assert.Greater(t, peaks["equal"], peaks["full"])
	assert.Less(t, waits["full"], waits["equal"])
	assert.Less(t, waits["equal"], waits["no jitter"])
}

// Three standard deviations of the load of 60,000 calls with three retries are less than 0.02. The
// closed form for a budget assumes that a bucket always has room for what a success puts back. At a
// failure rate of 0.1, as much is put back as is taken, and a bucket is sometimes full. So a
// tolerance of 0.02 is needed there too.
func TestLoadsFollowTheClosedForms(t *testing.T) {
	for _, l := range defaultLoads() {
		for _, c := range []struct {
			name      string
			want, got outcome
		}{
			{"three retries", l.plainForm, l.plain},
			{"three retries, Brooker's simulator", l.known, l.plain},
			{"within a budget", l.budgetedForm, l.budgeted},
		} {
			assert.InDelta(t, c.want.load, c.got.load, 0.02, "%v: %s: load", l.failing, c.name)
			assert.InDelta(t, c.want.success, c.got.success, 0.02, "%v: %s: success", l.failing, c.name)
		}
		bound := 1 + bucketRatio*l.budgeted.success + float64(bucketSize)/loadCalls
		assert.LessOrEqual(t, l.budgeted.load, bound, "%v: a budget bounds the load", l.failing)
		assert.LessOrEqual(t, l.budgeted.load, l.plain.load, "%v", l.failing)
		assert.GreaterOrEqual(t, l.budgeted.success, l.knownNoRetry-0.01, "%v: a budget is no worse than no retry", l.failing)
	}
}

// docs/why.md shows the tables and the pictures of the default simulations.
func TestPageIsUpToDate(t *testing.T) {
	page, err := os.ReadFile("../../../docs/why.md")
	require.NoError(t, err)
	herds, loads := defaultHerds(), defaultLoads()

	rows := make([]string, 6)
	for _, h := range herds {
		rows[0] += fmt.Sprintf(" %.0f |", h.peak)
		rows[1] += fmt.Sprintf(" %.1f |", h.meanWait)
	}
	for _, l := range loads {
		switch l.failing {
		case 0.01, 0.10, 0.30, 0.50, 1.00:
			for i, v := range []float64{l.plain.load, l.budgeted.load, l.plain.success, l.budgeted.success} {
				rows[2+i] += fmt.Sprintf(" %.1f |", 100*v)
			}
		}
	}
	figures := strings.ReplaceAll(string(page), ",", "") // 10,000
	figures = regexp.MustCompile(` +`).ReplaceAllString(figures, " ")
	for _, row := range rows {
		assert.Contains(t, figures, row)
	}

	for name, c := range map[string]chart{"herd.svg": herdChart(herds), "budget.svg": loadChart(loads)} {
		drawn, err := os.ReadFile(filepath.Join("../../../docs", name))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(drawn, c.svg()), "%s is not what the program draws", name)
	}
}

// The verdict and the margin of each rescue are as in docs/simulate.md, also with a shorter
// duration and one run.
func TestRescues(t *testing.T) {
	all, err := simulateRescues(1, "1m30s")
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
	picture := string(draw(all))
	assert.Equal(t, 2*len(all), strings.Count(picture, "<polyline"))
	for _, point := range regexp.MustCompile(`\.\d,(-?\d+\.\d) `).FindAllStringSubmatch(picture, -1) {
		y, err := strconv.ParseFloat(point[1], 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, y, runTop, "a line runs through the title of its picture")
	}
}
