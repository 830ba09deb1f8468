package explore

import (
	"encoding/xml"
	"errors"
	"html/template"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
)

// pageOf returns the page of the policy in a text.
func pageOf(t *testing.T, name, text, at string) string {
	file, err := policyfile.Parse(name, []byte(text))
	require.NoError(t, err)
	block, fault := file.Only(at)
	require.Nil(t, fault)
	p, dialect, faults := block.Read("")
	require.Empty(t, faults)
	html, err := Page(Policy{Policy: block.Effective(p), Block: block, Dialect: dialect, Text: text, Lints: block.Lint(p)})
	require.NoError(t, err)
	return string(html)
}

// The page contains the sentences that plan prints, and marks the policy in the text of the file.
func TestPage(t *testing.T) {
	html := pageOf(t, "<a>.yaml", "spec: # <b>&\n  http:\n  - timeout: 3s\n    retries:\n      attempts: 3\n      retryOn: reset\n      perTryTimeout: 1s\n  - {}\n", "spec.http.0.retries")
	for _, want := range []string{
		"<title>&lt;a&gt;.yaml - retry</title>", "&lt;a&gt;.yaml, line 5: spec.http.0.retries</h2>", "spec: # &lt;b&gt;&amp;\n",
		"<mark>      attempts: 3\n      retryOn: reset\n      perTryTimeout: 1s\n</mark>  - {}\n",
		"(istio)</p>", "<p>2 attempts fit into timeout, 3s, if each attempt takes its 1s and each wait is the longest.</p>",
		"<p>Worst case: 3s in all: timeout ends all attempts and waits then.</p>",
		"<li>Line 3: attempt 4 of 4 never runs, if each attempt before it takes its 1s: timeout is 3s, for all attempts and waits</li>",
		"<li>timeout: 3s, next to these settings, ends all attempts and waits together</li>",
		"<tr><td>1</td><td>0s to 25ms</td><td>1.025s</td></tr>", "<tr><td>3</td><td>0s to 100ms</td><td>3s</td></tr>", "<title>attempt 2: 0s to 1.025s</title>",
		"@media (prefers-color-scheme: dark)",
	} {
		assert.Contains(t, html, want)
	}
	for _, never := range []string{"<script", "<form", "http:/", " src=", `rel="stylesheet"`} {
		assert.NotContains(t, strings.ToLower(html), never)
	}
	many := pageOf(t, "a.yaml", "{max_attempts: 40, backoff: {type: fixed, base: 1h}}", "")
	assert.Contains(t, many, "<tr><td>12</td><td>1h</td><td>12h</td></tr>\n</tbody>\n</table>\n<p>And so on.</p>\n")
	assert.Contains(t, many, "counted over 10m,", "the window fits the delays of the policy")
	assert.Contains(t, pageOf(t, "a.yaml", "{max_attempts: 4, backoff: {type: fixed, base: 10ms}}", ""), "counted over 5ms,")
	assert.Contains(t, pageOf(t, "a.yaml", "{max_attempts: 20000, backoff: {type: fixed, base: 1us}}", ""), "Each client makes 1,000 retries or more in an outage")
}

func TestTicksAreRoundNumbers(t *testing.T) {
	for limit, want := range map[float64][]float64{
		1: {0, 1}, 2: {0, 1, 2}, 7: {0, 2, 4, 6, 8}, 500: {0, 100, 200, 300, 400, 500}, 950: {0, 200, 400, 600, 800, 1000}, 100_000: {0, 20_000, 40_000, 60_000, 80_000, 100_000},
	} {
		got, last := niceTicks(limit)
		assert.Equal(t, want, got)
		assert.Equal(t, want[len(want)-1], last)
	}
	for _, end := range []time.Duration{1, 59, 7 * time.Millisecond, 3600 * time.Millisecond, time.Minute, 90 * time.Minute, 47 * time.Hour, 1000 * 24 * time.Hour, math.MaxInt64} {
		ticks := timeTicks(end)
		assert.True(t, 2 <= len(ticks) && len(ticks) <= 7, "%v: %v", end, ticks)
		assert.LessOrEqual(t, ticks[len(ticks)-1], float64(end))
	}
	assert.Equal(t, []float64{0, 20e9, 40e9, 60e9}, timeTicks(time.Minute))
}

// For random policies, each chart is well-formed XML and stays inside its frame.
func TestChartsAreWellFormed(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	delays := []time.Duration{0, 1, time.Microsecond, 3 * time.Millisecond, time.Second, time.Hour, 1e6 * time.Hour, math.MaxInt64}
	one := func() time.Duration { return delays[random.IntN(len(delays))] }
	for range 100 {
		p := retry.Policy{
			MaxAttempts: []int{1, 2, 5, 40, retry.Unlimited}[random.IntN(5)],
			Backoff:     []retry.Backoff{retry.Fixed(one()), retry.Linear(one()), retry.Exponential{Base: one(), Factor: 3}, retry.Fibonacci(one()), retry.Schedule{one(), one()}}[random.IntN(5)],
			MaxDelay:    one(), MaxElapsed: one(), AttemptTimeout: one(),
			Jitter: []retry.Jitter{nil, retry.FullJitter, retry.Proportional(1)}[random.IntN(3)],
		}
		v := &view{Policy: &Policy{Policy: p}, outage: outageFor(p), Steps: p.Plan(maxRows)}
		v.Clients = 20
		pictures := []template.HTML{v.scheduleChart()}
		if all, drawn, ok := momentsOf(p, v.Clients, v.Outage); ok {
			pictures = append(pictures, v.herdFigure(all, drawn).Picture)
		}
		for _, picture := range pictures {
			checkPicture(t, string(picture), p)
		}
	}
}

func checkPicture(t *testing.T, picture string, p retry.Policy) {
	assert.NotContains(t, picture, "NaN")
	assert.NotContains(t, picture, "Inf")
	dec := xml.NewDecoder(strings.NewReader(picture))
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err, picture)
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		for _, a := range element.Attr {
			switch a.Name.Local {
			case "x", "x1", "x2", "width", "y", "y1", "y2":
				var v float64
				require.NoError(t, xml.Unmarshal([]byte("<v>"+a.Value+"</v>"), &v))
				assert.True(t, 0 <= v && v <= width, "%v: %s %s=%s", p, element.Name.Local, a.Name.Local, a.Value)
			}
		}
	}
}
