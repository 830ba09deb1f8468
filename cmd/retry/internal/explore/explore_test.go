package explore

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

func input(texts ...string) Input {
	in := NewInput()
	in.Texts = [2]string{}
	copy(in.Texts[:], texts)
	return in
}

func TestLook(t *testing.T) {
	v := look(NewInput())
	require.Len(t, v.Policies, 1)
	p := v.Policies[0]
	assert.Equal(t, "5 attempts, exponential 200ms x2, at most 5s, ±20%", p.Summary)
	assert.Equal(t, "native", p.Dialect)
	assert.Equal(t, []string{
		"Ends after 5 attempts.",
		"Worst case: 3.6s of waiting, Retry-After aside, and what the attempts take: nothing bounds an attempt.",
	}, p.Ends)
	assert.Len(t, p.Steps, 4)
	assert.False(t, p.More)
	assert.Empty(t, p.Faults)
	assert.Empty(t, p.Lints)
	assert.Equal(t, "Policy A: "+p.Summary, v.Status)
	assert.Contains(t, v.Schedule, "<title>A, attempt 5: 2.4s to 3.6s</title>")
	assert.Equal(t, []string{
		"Policy A: 4,000 retries, at most about 640 of them in any 50ms, which is about 13,000 per second; 1,000 clients give up.",
		"Policy A with the budget: 10 retries, at most about 10 of them in any 50ms, which is about 200 per second; 1,000 clients give up.",
	}, v.Herd.Words)
	assert.Equal(t, []string{
		"Policy A, where 50% of attempts fail: 193.8 attempts for 100 calls, with the budget at most 106.3.",
		"Policy A, where 100% of attempts fail: 500 attempts for 100 calls, with the budget at most 101.",
	}, v.Load.Words)

	// A second policy does not change what is said about the first.
	both := NewInput()
	both.Texts[1] = "max_attempts: 3\nbackoff: {type: fixed, base: 1h}"
	beside := look(both)
	assert.Equal(t, v.Herd.Words, beside.Herd.Words[:2])
	assert.Equal(t, v.Load.Words, beside.Load.Words[:2])

	// Two policies, the second of them in a dialect and with something to
	// report.
	in := input("a: {retry: {max_attempts: 2, backoff: {type: fixed, base: 1s}}}", "a:\n  retry:\n    backoff: linear\n    max_backoff_ms: 10")
	in.At = "a.retry"
	v = look(in)
	require.Len(t, v.Policies, 2)
	assert.Equal(t, "tasker", v.Policies[1].Dialect)
	require.Len(t, v.Policies[1].Lints, 1)
	assert.Equal(t, 4, v.Policies[1].Lints[0].Line)
	assert.Equal(t, "Policy A: 2 attempts, fixed 1s. Policy B: 3 attempts, linear 1s, at most 10ms; "+v.Policies[1].Lints[0].Text, v.Status)
	assert.Len(t, v.Herd.Words, 4)
	assert.Len(t, v.Load.Words, 4)

	// A policy with a fault does not hide the other one.
	v = look(input("x: 1\njitter: 2", "max_elapsed: 1m\nbackoff: {type: fixed, base: 1s}"))
	assert.Len(t, v.Policies[0].Faults, 2)
	assert.Equal(t, 2, v.Policies[0].Faults[1].Line)
	assert.Empty(t, v.Policies[0].Summary)
	assert.True(t, v.Policies[1].More)
	assert.Len(t, v.Policies[1].Steps, maxRows)
	assert.Contains(t, v.Status, "Policy A: line 1: unknown key \"x\": ")
	assert.NotContains(t, v.Herd.Picture, `class="line a"`)
	assert.Contains(t, v.Herd.Picture, `class="line b"`)

	for _, test := range []struct {
		name string
		text string
		want string
	}{
		{"broken", "a: [", "did not find "},
		{"empty", "", "there is nothing here: "},
		{"several", "max_attempts: 1\n---\nmax_attempts: 2", "there are 2 policies"},
		{"too long", strings.Repeat("#", MaxText+1), "the text is longer than 128 KiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := look(input(test.text))
			require.Len(t, v.Policies[0].Faults, 1)
			assert.Contains(t, v.Policies[0].Faults[0].Text, test.want)
			assert.Empty(t, v.Schedule)
			assert.Empty(t, v.Herd)
			assert.Empty(t, v.Load)
		})
	}
}

// Each number has a least and a most value, and beyond them a fault.
func TestNumbers(t *testing.T) {
	long := strings.Repeat("x", maxPath)
	for i, test := range []struct{ within, beyond func(*Input) }{
		{func(in *Input) { in.Clients = 1 }, func(in *Input) { in.Clients = 0 }},
		{func(in *Input) { in.Clients = maxClients }, func(in *Input) { in.Clients = maxClients + 1 }},
		{func(in *Input) { in.Size = 1 }, func(in *Input) { in.Size = 0 }},
		{func(in *Input) { in.Ratio = 1 }, func(in *Input) { in.Ratio = 1.01 }},
		{func(in *Input) { in.Ratio = 0 }, func(in *Input) { in.Ratio = -0.01 }},
		{func(in *Input) { in.Ratio = 0.5 }, func(in *Input) { in.Ratio = math.NaN() }},
		{func(in *Input) { in.Outage = leastOutage }, func(in *Input) { in.Outage = leastOutage - 1 }},
		{func(in *Input) { in.Outage = mostOutage }, func(in *Input) { in.Outage = mostOutage + 1 }},
		{func(in *Input) { in.At, in.Texts[0] = long, long+": {}" }, func(in *Input) { in.At = long + "." }},
	} {
		in := NewInput()
		test.within(&in)
		v := look(in)
		assert.Empty(t, v.Faults, i)
		assert.NotEmpty(t, v.Herd.Picture, i)
		test.beyond(&in)
		v = look(in)
		require.Len(t, v.Faults, 1, i)
		assert.Equal(t, len(in.At) > maxPath, v.Policies == nil, "nothing is searched for such a path")
		assert.Contains(t, v.Status, v.Faults[0])
		assert.Empty(t, v.Herd, i)
	}
}

// The page shows the end, the worst case and the delays of each policy.
func TestTable(t *testing.T) {
	v := look(input(
		"{max_attempts: 4, backoff: {type: exponential, base: 200ms}, max_delay: 500ms, jitter: 0.2, attempt_timeout: 1m}",
		"{max_attempts: -1, backoff: {type: fixed, base: 1h}}"))
	var b bytes.Buffer
	require.NoError(t, page.ExecuteTemplate(&b, "answer", v))
	a, rest, found := strings.Cut(b.String(), "</section>")
	require.True(t, found)
	assert.True(t, strings.HasSuffix(a, `
<p>The delays reach max_delay, 500ms, after attempt 3.</p>
<p>Ends after 4 attempts.</p>
<p>Worst case: 4m1.22s in all, Retry-After aside, if every attempt runs into its attempt_timeout, 1m.</p>
<table>
<caption>Its delays</caption>
<thead><tr><th scope="col">After attempt</th><th scope="col">Wait</th><th scope="col">Total at most</th></tr></thead>
<tbody>
<tr><td>1</td><td>160ms to 240ms</td><td>1m0.24s</td></tr>
<tr><td>2</td><td>320ms to 480ms</td><td>2m0.72s</td></tr>
<tr><td>3</td><td>400ms to 500ms</td><td>3m1.22s</td></tr>
</tbody>
</table>
`), a)
	unlimited, _, found := strings.Cut(rest, "</section>")
	require.True(t, found)
	assert.Contains(t, unlimited, "<tr><td>12</td><td>1h</td><td>12h</td></tr>\n</tbody>\n</table>\n<p>And so on.</p>\n")
}

func TestTicks(t *testing.T) {
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

func TestStatic(t *testing.T) {
	in := input("max_attempts: 2 # <b>&", "jitter: '</pre><script>'")
	in.Names = [2]string{"<a>.yaml", "b.yaml"}
	text, faults, err := Static(in)
	require.NoError(t, err)
	require.Len(t, faults, 1)
	assert.Equal(t, "b.yaml", faults[0].File)
	html := string(text)
	assert.Contains(t, html, "max_attempts: 2 # &lt;b&gt;&amp;")
	assert.Contains(t, html, "Policy A: &lt;a&gt;.yaml")
	assert.Contains(t, html, `<title>&lt;a&gt;.yaml - b.yaml - retry explore</title>`)
	assert.Contains(t, html, "@media (prefers-color-scheme: dark)")
	assert.NotContains(t, strings.ToLower(html), "<script")
	assert.NotContains(t, html, "<form")
	assert.NotContains(t, html, "http") // nothing is loaded from elsewhere
	assert.NotContains(t, html, " src=")
	assert.NotContains(t, html, `rel="stylesheet"`)
}

// Whatever the policy is, each picture is well formed and stays inside its
// frame.
func TestPictures(t *testing.T) {
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
		text, err := p.MarshalText()
		require.NoError(t, err)
		in := input(string(text))
		in.Clients, in.Outage = 20, []time.Duration{leastOutage, time.Second, time.Minute, mostOutage}[random.IntN(4)]
		v := look(in)
		for _, picture := range []string{string(v.Schedule), string(v.Herd.Picture), string(v.Load.Picture)} {
			checkPicture(t, picture, p)
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
