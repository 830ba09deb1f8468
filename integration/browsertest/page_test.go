// Package browsertest tests the pages of retry plan and retry simulate in a real browser.
// RETRY_TEST_CHROME is the path of the browser, and RETRY_TEST_AXE is the path of the file
// axe.min.js of axe-core. ".ci/services browser" installs both.
package browsertest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/integration/internal/tool"
)

func TestMain(m *testing.M) { tool.Main(m) }

// made returns the address of the page that a command has written.
func made(t *testing.T, args ...string) string {
	file := filepath.Join(t.TempDir(), "page.html")
	output, err := exec.Command(tool.Path, append([]string{args[0], "-page", file}, args[1:]...)...).CombinedOutput()
	require.FileExists(t, file, "%v: %s", err, output) // for a system that stays down, the exit status is 1
	return "file://" + file
}

// A browser is one tab of its own browser process.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// open starts a browser. At the end, the test fails if the console has a message. A message is an
// error of a script, or says what the Content-Security-Policy of the page has blocked.
func open(t *testing.T) *browser {
	program := os.Getenv("RETRY_TEST_CHROME")
	if program == "" && os.Getenv("CI") == "true" {
		t.Fatal("RETRY_TEST_CHROME is not set to a browser")
	}
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
		assert.NoError(t, chromedp.Cancel(ctx)) // waits until the browser has exited, because it writes to its directory until then
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

// pages are the inputs of the commands: a policy in our own form, a policy in a large file with
// notes, a policy whose delays take days, and a system.
var pages = map[string][]string{
	"policy": {"plan", "../../cmd/retry/testdata/policy.yaml"}, "route": {"plan", "testdata/route.yaml"},
	"slow": {"plan", "testdata/slow.yaml"}, "system": {"simulate", "-rescue", "testdata/system.yaml"},
}

// On the screen of a telephone, nothing is wider than the page. The block that was read is marked. The
// lines of a picture differ in their dashes, not only in their colors.
func TestNarrow(t *testing.T) {
	b := open(t)
	_, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 390, Height: 844, DeviceScaleFactor: 2, Mobile: true})
	require.NoError(t, err)
	for name, args := range pages {
		b.do(chromedp.Navigate(made(t, args...)))
		assert.LessOrEqual(t, eval[int](b, "document.documentElement.scrollWidth"), 390, name)
		assert.Positive(t, eval[int](b, "document.querySelectorAll('svg').length"), name)
		assert.NotRegexp(t, `NaN|Inf|undefined`, eval[string](b, "document.body.innerHTML"), name)
		same := eval[[]string](b, `[...document.querySelectorAll("svg")].flatMap(svg => {
			const dashes = [...svg.querySelectorAll("polyline.line")].map(l => getComputedStyle(l).strokeDasharray);
			return dashes.filter((d, i) => dashes.indexOf(d) !== i);
		})`)
		assert.Empty(t, same, name)
		screenshot(b, "page-"+name+"-narrow.png")
		if name == "route" {
			assert.Contains(t, eval[string](b, "document.querySelector('mark').innerText"), "num_retries: 5")
			assert.Contains(t, eval[string](b, "document.querySelector('.lint').innerText"), "never runs")
			assert.Contains(t, eval[string](b, "document.querySelector('.note').innerText"), "max_retries")
		}
	}
}

// axe-core finds no violation in light mode, and in dark mode no text that is hard to read. The other
// rules of axe-core do not depend on the mode.
func TestAccessible(t *testing.T) {
	b := open(t)
	axe, err := os.ReadFile(os.Getenv("RETRY_TEST_AXE"))
	require.NoError(t, err)
	audit := func(name, options string, rules int) {
		b.do(chromedp.Evaluate[chromedp.Void](string(axe)))
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
		}](b, "axe.run("+options+")")
		assert.Empty(t, result.Violations, name)
		assert.GreaterOrEqual(t, len(result.Passes), rules, name)
	}
	for _, scheme := range []string{"light", "dark"} {
		_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		require.NoError(t, err)
		for name, args := range pages {
			b.do(chromedp.Navigate(made(t, args...)))
			dark := eval[bool](b, "getComputedStyle(document.body).backgroundColor != 'rgb(255, 255, 255)'")
			assert.Equal(t, scheme == "dark", dark)
			screenshot(b, "page-"+name+"-"+scheme+".png")
			if dark {
				audit(name, `{runOnly: ["color-contrast"]}`, 1)
			} else {
				audit(name, "", 20)
			}
		}
	}
}

// screenshot saves a picture of the page in the directory RETRY_SCREENSHOTS, if this variable is set.
func screenshot(b *browser, name string) {
	dir := os.Getenv("RETRY_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name), png, 0o644))
}
