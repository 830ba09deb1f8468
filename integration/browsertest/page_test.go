// Package browsertest tests the page of retry explore in a real browser.
// RETRY_TEST_CHROME is the path of the browser, RETRY_TEST_AXE that of axe-core's
// file axe.min.js, and RETRY_TEST_TOOL that of the tool; without it, it is built
// from this checkout.
package browsertest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/integration/internal/tool"
)

func TestMain(m *testing.M) { tool.Main(m) }

// serve starts the tool and returns the address of the page.
func serve(t *testing.T, args ...string) string {
	command := exec.Command(tool.Path, append([]string{"explore"}, args...)...)
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	command.Stderr = os.Stderr
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		require.NoError(t, command.Process.Signal(os.Interrupt))
		assert.NoError(t, command.Wait())
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	return strings.Fields(line)[0]
}

// A browser is one tab of its own browser process.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// open starts a browser. At the end the test fails if the console has a
// message: a script's error, or something that the page's
// Content-Security-Policy blocked.
func open(t *testing.T) *browser {
	program := os.Getenv("RETRY_TEST_CHROME")
	if program == "" {
		t.Skip("RETRY_TEST_CHROME is not set to a browser")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1200, 1500),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	allocated, cancelAllocated := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocated)
	limited, cancelLimited := context.WithTimeout(ctx, 4*time.Minute)
	console := chromedp.Console(limited)
	messages := make(chan []string, 1)
	go func() {
		var all []string
		for m, err := range console {
			if err != nil {
				break // the browser has exited
			}
			all = append(all, m.String())
		}
		messages <- all
	}()
	t.Cleanup(func() {
		assert.NoError(t, chromedp.Cancel(ctx)) // waits for the browser, which writes to its directory until it exits
		cancelLimited()
		cancel()
		cancelAllocated()
		assert.Empty(t, <-messages)
	})
	return &browser{t, limited}
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, steps...))
}

// eval returns the value of a JavaScript expression.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err)
	return v
}

// script runs a JavaScript statement.
func script(statement string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](statement)
}

// input sets the value of a field, as typing does.
func input(id, value string) chromedp.Action[chromedp.Void] {
	return script(fmt.Sprintf("{const e = document.getElementById(%q); e.value = %q; e.dispatchEvent(new Event('input', {bubbles: true}))}", id, value))
}

// until waits until an expression is true.
func (b *browser) until(expression string) {
	b.t.Helper()
	b.do(chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(20*time.Second)))
}

func text(id string) string { return fmt.Sprintf("document.getElementById(%q).innerText", id) }

// When a user types a policy, the schedule changes and faults are reported.
func TestTyping(t *testing.T) {
	b := open(t)
	b.do(chromedp.Navigate(serve(t)))
	assert.Contains(t, eval[string](b, text("answer")), "5 attempts, exponential 200ms x2, at most 5s, ±20%")
	before := eval[string](b, "document.querySelector('#answer svg').outerHTML")
	assert.Equal(t, 4, eval[int](b, "document.querySelectorAll('#answer svg .bar').length"))

	// With the keyboard, Tab leads to the first policy.
	b.do(chromedp.KeyEvent(kb.Tab))
	assert.Equal(t, "a", eval[string](b, "document.activeElement.id"))
	b.do(script("document.activeElement.select()"), chromedp.KeyEvent("max_attempts: 3\nbackoff: {type: fixed, base: 1m}\n"))
	b.until(text("answer") + ".includes('3 attempts, fixed 1m0s')")
	assert.Equal(t, 2, eval[int](b, "document.querySelectorAll('#answer svg .bar').length"))
	assert.NotEqual(t, before, eval[string](b, "document.querySelector('#answer svg').outerHTML"))
	assert.Equal(t, "Policy A: 3 attempts, fixed 1m0s", eval[string](b, text("status")), "for screen readers")
	assert.Equal(t, "a", eval[string](b, "document.activeElement.id"), "the focus stays")

	b.do(chromedp.KeyEvent("max_dely: 5s"))
	b.until(text("answer") + `.includes('Line 3: unknown key "max_dely"')`)
	assert.Zero(t, eval[int](b, "document.querySelectorAll('#answer svg').length"))
	assert.Contains(t, eval[string](b, text("status")), `Policy A: line 3: unknown key "max_dely"`)

	// A second policy is shown beside the first.
	b.do(script("document.activeElement.select()"), chromedp.KeyEvent("max_attempts: 3\nbackoff: {type: fixed, base: 1m}\n"),
		chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent("max_attempts: 9\nbackoff: {type: linear, base: 10s}\n"))
	b.until(text("answer") + ".includes('9 attempts, linear 10s')")
	assert.Equal(t, 2, eval[int](b, "document.querySelectorAll('#answer .bar.a').length"))
	assert.Equal(t, 8, eval[int](b, "document.querySelectorAll('#answer .bar.b').length"))

	// The numbers change the pictures.
	b.do(input("clients", "50"))
	b.until(text("answer") + ".includes('50 clients call when an outage of 5s begins')")
	b.do(input("outage", "2m"))
	b.until(text("answer") + ".includes('50 clients call when an outage of 2m begins')")
	b.do(input("clients", "0"))
	b.until(text("answer") + ".includes('The number of clients is 0')")
}

// The address holds what was entered, and leads to the same page.
func TestAddress(t *testing.T) {
	b := open(t)
	b.do(chromedp.Navigate(serve(t)), input("a", "max_attempts: 4 # + & = 💥\n"), input("outage", "90s"), input("size", "33"))
	b.until("location.search.includes('size=33')")
	b.until(text("answer") + ".includes('an outage of 1m30s')")
	answer, address := eval[string](b, text("answer")), eval[string](b, "location.href")
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(address))
	assert.Equal(t, answer, eval[string](b, text("answer")))
	assert.Equal(t, "max_attempts: 4 # + & = 💥\n", eval[string](b, "document.getElementById('a').value"))
	assert.Equal(t, "33", eval[string](b, "document.getElementById('size').value"))
}

// On a telephone a fault is in sight, whatever is in sight besides.
func TestNarrow(t *testing.T) {
	b := open(t)
	_, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 390, Height: 844, DeviceScaleFactor: 2, Mobile: true})
	require.NoError(t, err)
	b.do(chromedp.Navigate(serve(t)))
	const seen = `(() => {
		const r = document.getElementById("status").getBoundingClientRect();
		return r.height > 10 && r.width > 300 && r.top >= 0 && r.bottom <= innerHeight;
	})()`
	assert.False(t, eval[bool](b, seen), "there is no fault")
	screenshot(b, "explore-narrow.png")
	for _, where := range []string{"#a", "#b", "#ratio", "#load"} {
		b.do(input("a", "max_attempts: 3"))
		b.until(text("answer") + ".includes('3 attempts')")
		b.do(script(fmt.Sprintf("document.querySelector(%q).scrollIntoView({block: 'center'})", where)), input("b", "max_dely: 5s\njitter: 2"))
		b.until(text("answer") + `.includes('unknown key "max_dely"')`)
		assert.True(t, eval[bool](b, seen), where)
		assert.Contains(t, eval[string](b, text("status")), `Policy B: line 1: unknown key "max_dely"`)
		assert.LessOrEqual(t, eval[int](b, "document.documentElement.scrollWidth"), 390, where)
		screenshot(b, "explore-narrow-fault.png")
		b.do(input("b", ""))
		b.until("!" + seen)
	}
}

// The page of a system changes with its text, with an event and with a policy.
func TestSystem(t *testing.T) {
	b := open(t)
	_, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 390, Height: 844, DeviceScaleFactor: 2, Mobile: true})
	require.NoError(t, err)
	b.do(chromedp.Navigate(serve(t, "testdata/system.yaml")))
	assert.Equal(t, "/system", eval[string](b, "location.pathname"))
	assert.Contains(t, eval[string](b, text("answer")), "stays down (3 of 3 runs)")
	assert.Equal(t, 3, eval[int](b, "document.querySelectorAll('#answer svg').length"))
	screenshot(b, "explore-system-narrow.png")

	b.do(input("call", "web: {calls: [{to: db, timeout: 1s, retry: {max_attempts: 2}, budget: {size: 10, ratio: 0.1}}]}"))
	b.until("!" + text("answer") + ".includes('stays down')")
	b.do(input("event", "{at: 20s, for: 10s, service: db, workers: x}"))
	b.until(text("answer") + `.includes('events[0].workers is "x"')`)
	assert.Contains(t, eval[string](b, text("status")), `events[0].workers is "x"`)
	b.do(input("event", ""))
	b.until("document.querySelectorAll('#answer svg').length == 3")
	b.until("location.search.includes('budget')")
	answer, address := eval[string](b, text("answer")), eval[string](b, "location.href")
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(address))
	assert.Equal(t, answer, eval[string](b, text("answer")))
	assert.LessOrEqual(t, eval[int](b, "document.documentElement.scrollWidth"), 390)
}

// If the program does not answer, the page says so, and it continues when the
// program is back.
func TestNoAnswer(t *testing.T) {
	b := open(t)
	b.do(chromedp.Navigate(serve(t)))
	b.do(script("window.real = window.fetch; window.fetch = () => Promise.reject(new TypeError('gone'))"))
	b.do(chromedp.Click("#a"), chromedp.KeyEvent("#"))
	b.until(text("answer") + ".includes('The program does not answer: start retry explore again.')")
	assert.Contains(t, eval[string](b, text("status")), "The program does not answer")
	b.do(script("window.fetch = window.real"), chromedp.KeyEvent("#"))
	b.until(text("answer") + ".includes('attempts')")
}

// Without scripts the form is submitted, and the answer is in the page.
func TestWithoutScripts(t *testing.T) {
	b := open(t)
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(t, err)
	b.do(chromedp.Navigate(serve(t)), chromedp.Focus("#b"), chromedp.KeyEvent("max_attempts: 7"), chromedp.Click("button"), chromedp.WaitVisible("#said-b"))
	html, err := chromedp.Run(b.ctx, chromedp.OuterHTML("#answer"))
	require.NoError(t, err)
	assert.Contains(t, html, "<strong>7 attempts</strong>")
}

// axe-core finds no violation in light and dark mode, on the page, on a page
// with faults, and on the static file.
func TestAccessible(t *testing.T) {
	b := open(t)
	axe, err := os.ReadFile(os.Getenv("RETRY_TEST_AXE"))
	require.NoError(t, err)
	site := serve(t, "../../cmd/retry/testdata/policy.yaml", "testdata/lint.yaml")
	system := serve(t, "testdata/system.yaml")
	file := filepath.Join(t.TempDir(), "page.html")
	output, err := exec.Command(tool.Path, "explore", "-o", file, "../../cmd/retry/testdata/policy.yaml", "testdata/lint.yaml").CombinedOutput()
	require.NoError(t, err, string(output))

	audit := func(name string) {
		b.do(script(string(axe)))
		result := eval[struct {
			Violations []struct {
				ID    string `json:"id"`
				Help  string `json:"help"`
				Nodes []struct {
					HTML    string `json:"html"`
					Summary string `json:"failureSummary"`
				} `json:"nodes"`
			} `json:"violations"`
			Passes []struct {
				ID string `json:"id"`
			} `json:"passes"`
		}](b, "axe.run()")
		assert.Empty(t, result.Violations, name)
		assert.Greater(t, len(result.Passes), 20, name)
	}
	for _, scheme := range []string{"light", "dark"} {
		_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		require.NoError(t, err)
		b.do(chromedp.Navigate(site))
		dark := eval[bool](b, "getComputedStyle(document.body).backgroundColor != 'rgb(255, 255, 255)'")
		assert.Equal(t, scheme == "dark", dark)
		audit(scheme)
		screenshot(b, "explore-"+scheme+".png")
		b.do(input("a", "jitter: 2\nx: 1"))
		b.until(text("answer") + ".includes('Line 1: jitter is 2')")
		audit(scheme + ", with faults")
		b.do(chromedp.Navigate("file://" + file))
		audit(scheme + ", the file")
		b.do(chromedp.Navigate(system))
		audit(scheme + ", a system")
		screenshot(b, "explore-system-"+scheme+".png")
	}
}

// screenshot saves a picture of the page in the directory RETRY_SCREENSHOTS, if
// that is set.
func screenshot(b *browser, name string) {
	dir := os.Getenv("RETRY_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name), png, 0o644))
}

// A thousand texts, entered one after another, do not break the page: each gets
// an answer with either the pictures of a policy or its faults.
func TestRandomPolicies(t *testing.T) {
	b := open(t)
	b.do(chromedp.Navigate(serve(t, "-clients", "50")))
	random := rand.New(rand.NewPCG(7, 8))
	var texts []string
	for range 1000 {
		texts = append(texts, randomText(random))
	}
	encoded, err := json.Marshal(texts)
	require.NoError(t, err)
	result := eval[struct {
		Policies, Faults int
		Broken           []string
	}](b, fmt.Sprintf(`(async () => {
		const result = {policies: 0, faults: 0, broken: []};
		const answer = document.getElementById("answer"), a = document.getElementById("a");
		let answered;
		new MutationObserver(() => answered()).observe(answer, {childList: true});
		for (const text of %s) {
			const shown = new Promise((resolve) => answered = resolve);
			a.value = text;
			a.dispatchEvent(new Event("input", {bubbles: true}));
			await shown;
			const faults = answer.querySelectorAll("#said-a ~ .fault li").length;
			const policy = answer.querySelector("#said-a ~ p strong") !== null;
			if (policy) result.policies++;
			if (faults > 0) result.faults++;
			if (policy === (faults > 0) || policy && answer.querySelectorAll("figure").length < 2 && !answer.innerText.includes("10,000 retries or more")
				|| /NaN|Inf|undefined|\[object/.test(answer.innerHTML)
				|| document.documentElement.scrollWidth > window.innerWidth) {
				result.broken.push(text + " => " + answer.innerText);
			}
		}
		return result;
	})()`, encoded))
	assert.Empty(t, result.Broken)
	assert.Equal(t, 1000, result.Policies+result.Faults)
	assert.Greater(t, result.Policies, 300)
	assert.Greater(t, result.Faults, 300)
}

// randomText returns a policy as a user might leave it: complete, half typed,
// with values out of range, or something else.
func randomText(random *rand.Rand) string {
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	delay := func() string {
		return pick("0s", "1ns", "20ms", "1s", "90s", "3h", "2000000h", "20ms", "1s", "1s", "5", "-1s", "x")
	}
	lines := []string{
		"max_attempts: " + pick("1", "2", "5", "9", "40", "100000", "-1", "5", "9", "0", "1.5", "many"),
		"max_retries: " + pick("0", "1", "7", "-1", "-2"),
		"attempt_cap: " + pick("0", "3", "30"),
		"backoff: {type: " + pick("fixed", "linear", "fibonacci", "exponential", "cubic") + ", base: " + delay() + "}",
		"backoff: {type: exponential, base: " + delay() + ", factor: " + pick("1", "1.5", "3", "0.5", "1e300") + "}",
		"backoff: {type: schedule, delays: [" + delay() + ", " + delay() + "]}",
		"backoff: " + pick("linear", "none", "exponential"),
		"max_delay: " + delay(), "max_elapsed: " + delay(), "attempt_timeout: " + delay(),
		"jitter: " + pick("full", "equal", "0", "0.3", "1", "2"),
		"retryable: " + pick("true", "false"),
		pick("retry:", "<<: *x", "}", "\t", "💥: '</script><img src=x onerror=alert(1)>'", strings.Repeat("long", 500)),
	}
	var text []string
	used := map[string]bool{}
	for range 1 + random.IntN(5) {
		line := lines[random.IntN(len(lines))]
		key, _, _ := strings.Cut(line, ":")
		if random.IntN(3) > 0 && (used[key] || line == lines[len(lines)-1]) {
			continue
		}
		used[key] = true
		text = append(text, line)
	}
	whole := strings.Join(text, "\n")
	if random.IntN(5) == 0 {
		return whole[:random.IntN(len(whole)+1)]
	}
	return whole
}
