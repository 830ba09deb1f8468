package retry_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryjob"
	"github.com/goretry/retry/retrylog"
	"github.com/goretry/retry/retrysql"
	"github.com/goretry/retry/retrytest"
)

// Every Go snippet of the README, and of the pages with recipes and about other
// libraries, is in a test or an example program that compiles and runs. They must match word for
// word, except for indentation.
func TestREADMESnippets(t *testing.T) {
	var sources []string
	for _, root := range []string{"readme_test.go", "integration/yamltest", "integration/llmtest", "examples"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			source, err := os.ReadFile(path)
			sources = append(sources, flush(string(source)))
			return err
		}))
	}
	for _, page := range []string{"README.md", "docs/coming-from.md", "docs/budget.md", "docs/recipes.md"} {
		snippets := fenced(t, page, "go")
		require.NotEmpty(t, snippets)
		for _, snippet := range snippets {
			runs := slices.ContainsFunc(sources, func(source string) bool { return strings.Contains(source, flush(snippet)) })
			assert.True(t, runs, "%s: no test runs\n%s", page, snippet)
		}
	}
}

// flush returns lines without their indentation.
func flush(text string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(text, "")
}

func TestREADMEIsShortAndSaysHowToBegin(t *testing.T) {
	assert.LessOrEqual(t, strings.Count(text(t, "README.md"), "\n"), 220)
	assert.Equal(t, "go get github.com/goretry/retry\n", fenced(t, "README.md", "")[0])
	assert.Contains(t, fenced(t, "README.md", ""), "go run ./examples/quickstart\ngo test ./...\n")
}

// Every relative link of the README and of the pages in docs leads to a file that
// exists.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range append(pages, "README.md", "SECURITY.md") {
		for _, link := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(text(t, page), -1) {
			assert.FileExists(t, filepath.Join(filepath.Dir(page), link[1]), page)
		}
	}
}

// Each test that SECURITY.md names exists.
func TestSecurityNamesTests(t *testing.T) {
	named := regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(text(t, "SECURITY.md"), -1)
	assert.Greater(t, len(named), 25)
	for _, test := range named {
		dir := filepath.FromSlash(test[1])
		if test[1] == "retry" {
			dir = "."
		}
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		assert.True(t, slices.ContainsFunc(files, func(file string) bool {
			return strings.Contains(text(t, file), "\nfunc "+test[2]+"(")
		}), test[0])
	}
}

// The README leads to every package that can be imported, to every adapter, and to
// the list of all examples.
func TestREADMELeadsEverywhere(t *testing.T) {
	readme := text(t, "README.md")
	links := func(dir string) bool {
		return strings.Contains(readme, "](https://pkg.go.dev/github.com/goretry/retry/"+dir+")") || strings.Contains(readme, "]("+dir+"/README.md)")
	}
	packages := 0
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch dir := filepath.ToSlash(filepath.Dir(path)); {
		case err != nil:
			return err
		case entry.IsDir():
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			moduleOfTests := err == nil && strings.Contains(entry.Name(), "test")
			if moduleOfTests || slices.Contains([]string{"internal", "integration", "testdata", "examples", "benchmarks", "cmd", ".git", ".ci"}, entry.Name()) {
				return filepath.SkipDir
			}
			packages++
		case dir != "." && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			assert.True(t, links(dir), dir)
		}
		return nil
	}))
	assert.Greater(t, packages, 15)

	list := text(t, "examples/README.md")
	examples, err := os.ReadDir("examples")
	require.NoError(t, err)
	for _, example := range examples {
		if example.IsDir() {
			assert.Contains(t, list, "]("+example.Name(), example.Name())
		}
	}
	assert.Contains(t, readme, "](examples/README.md)")
}

// The numbers of the README are those of the latest run of the benchmarks.
func TestREADMENumbers(t *testing.T) {
	// column returns the cells of a column, by the first cell of their row.
	column := func(title string) map[string]string {
		cells, index := make(map[string]string), 0
		for line := range strings.Lines(text(t, "benchmarks/README.md")) {
			row := regexp.MustCompile(` *\| *`).Split(strings.TrimSpace(line), -1)
			if slices.Contains(row, title) || len(row) < 3 {
				index = slices.Index(row, title)
			} else if index > 0 && !strings.Contains(row[1], "---") {
				cells[row[1]] = row[index]
			}
		}
		return cells
	}
	success, none, _ := strings.Cut(column("first try")["retry"], ", ")
	failures, one, _ := strings.Cut(column("10 failures")["retry"], ", ")
	libraries := 0
	for name := range column("10 failures") {
		if name != "bare" && name != "retry" && !strings.HasSuffix(name, "-guarded") {
			libraries++
		}
	}
	require.Equal(t, 10, libraries)
	page := strings.Join(strings.Fields(text(t, "README.md")), " ")
	assert.Contains(t, page, fmt.Sprintf("%s allocations on success, %s per failing call, beside ten libraries", none, one))
	assert.Contains(t, page, fmt.Sprintf("A first try takes %s the time of a careful loop written by hand, ten failures %s, and a waiting call %s its memory",
		success, failures, column("bytes of a waiting call")["retry-Do"]))
}

func text(t *testing.T, page string) string {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	return string(text)
}

// fenced returns the code blocks of a page that are in the given language.
func fenced(t *testing.T, page, language string) []string {
	var blocks []string
	for i, part := range strings.Split(text(t, page), "```") {
		if name, block, _ := strings.Cut(part, "\n"); i%2 == 1 && name == language {
			blocks = append(blocks, block)
		}
	}
	return blocks
}

// The snippets of the README, each run once. TestREADMESnippets requires that
// they are here word for word; the YAML snippet is in integration/yamltest.

var errRefused = errors.New("dial tcp 127.0.0.1:5432: connect: connection refused")

// database is a driver whose first connection is refused.
type database struct{ connections, commits int }

func (d *database) Connect(context.Context) (driver.Conn, error) {
	if d.connections++; d.connections == 1 {
		return nil, errRefused
	}
	return connection{d}, nil
}

func (d *database) Driver() driver.Driver { return nil }

type connection struct{ d *database }

func (c connection) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c connection) Close() error                        { return nil }
func (c connection) Begin() (driver.Tx, error)           { return c, nil }
func (c connection) Commit() error                       { c.d.commits++; return nil }
func (c connection) Rollback() error                     { return nil }
func (c connection) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), nil
}

func TestREADMEPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, d := t.Context(), new(database)
		db := sql.OpenDB(d)
		defer db.Close()

		err := retry.Do(ctx, retry.Default(), func(ctx context.Context) error {
			return db.PingContext(ctx)
		})

		require.NoError(t, err)
		assert.Equal(t, 2, d.connections)
	})
}

func TestREADMEErrorText(t *testing.T) {
	p := retry.Default()
	p.Jitter = nil // so that the total is a round number
	err := retry.Do(t.Context(), retrytest.NoWait(p), failWith(errRefused))
	assert.Contains(t, fenced(t, "README.md", ""), err.Error()+"\n")
}

func TestREADMEClient(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests == 1 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	url := server.URL

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequest("GET", url, nil)
	require.NoError(t, err)

	policy := retry.Default()
	policy.AttemptTimeout = 5 * time.Second // until the headers: a server that hangs is one failed attempt
	client := &http.Client{Transport: &retryhttp.Transport{Policy: policy}}
	resp, err := client.Do(req.WithContext(ctx)) // resp may still be a 503: retryhttp.ErrorOf(resp) says why

	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, 2, requests)
}

func TestREADMETransaction(t *testing.T) {
	ctx, d := t.Context(), &database{connections: 1}
	db := sql.OpenDB(d)
	defer db.Close()

	err := retrysql.Tx(ctx, db, nil, retry.Default(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 1")
		return err
	})

	require.NoError(t, err)
	assert.Equal(t, 1, d.commits)
}

func TestREADMEPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, errNotReady, calls := t.Context(), errors.New("not ready yet"), 0
		fetch := func(context.Context) (string, error) {
			if calls++; calls < 5 {
				return "", fmt.Errorf("the build is running: %w", errNotReady)
			}
			return "done", nil
		}

		poll := retry.Policy{
			MaxElapsed:     time.Minute,
			AttemptTimeout: 5 * time.Second,
			Backoff:        retry.Fixed(time.Second),
			RetryIf:        func(err error) bool { return errors.Is(err, errNotReady) }, // without it every error
		}
		state, err := retry.DoValue(ctx, poll, fetch) // func fetch(context.Context) (string, error)

		require.NoError(t, err)
		assert.Equal(t, "done", state)
	})
}

func TestREADMEReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var waits []time.Duration
		lost := time.Now()
		serve := func(context.Context) error {
			waits = append(waits, time.Since(lost))
			time.Sleep([]time.Duration{0, 0, time.Minute, 0, 0}[len(waits)-1])
			lost = time.Now()
			if len(waits) == 5 {
				cancel()
			}
			return errDial
		}

		reconnect := retry.Policy{
			MaxAttempts:  retry.Unlimited,
			Backoff:      retry.Exponential{Base: time.Second},
			MaxDelay:     time.Minute,
			Jitter:       retry.FullJitter,
			HealthyAfter: time.Minute,
		}
		err := retry.Do(ctx, reconnect, serve) // func serve(context.Context) error connects, and serves until that fails

		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
		require.Len(t, waits, 5)
		for i, most := range []time.Duration{0, time.Second, 2 * time.Second, time.Second, 2 * time.Second} {
			assert.LessOrEqual(t, waits[i], most, "before connection %d", i+1)
		}
		e := stopped(t, err)
		assert.Equal(t, []int{3, 1}, []int{e.Attempts, e.Resets}, "the minute of health began it anew")
	})
}

func TestREADMELog(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(before)
	policy := retry.Policy{MaxAttempts: 2}

	logged, counters := retrylog.Slog(slog.Default()), new(retrylog.Counters)
	policy.OnEvent = func(ctx context.Context, e retry.Event) { // e.Kind is retry.RetryScheduled for a retry
		logged(ctx, e)
		counters.OnEvent(ctx, e) // counters.Snapshot() has Calls, Retries, and Stops by reason
	}

	assert.ErrorIs(t, retry.Do(t.Context(), policy, failWith(errDial)), errDial)
	assert.Regexp(t, `(?s)^[^\n]*level=WARN[^\n]*attempt=1 [^\n]*connection refused"\n[^\n]*level=ERROR[^\n]*reason=attempts_exhausted[^\n]*\n$`, out.String())
}

func TestREADMETest(t *testing.T) {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Linear(time.Second)}
	errDown := errDial

	retrytest.Schedule(t, policy, time.Second, 2*time.Second) // without jitter: these delays, and then no more
	d := policy.Next(retry.Attempt{Number: 3, Err: errDown})  // not d.Retry(): d.Reason is ReasonExhausted; d.Lo, d.Hi
	op := retrytest.NewOp(errDown, errDown, nil)              // fails twice
	err := retry.Do(t.Context(), retrytest.NoWait(policy), op.Run)

	require.NoError(t, err)
	assert.Equal(t, 3, op.Attempts())
	assert.Equal(t, retry.ReasonExhausted, d.Reason)
}

func TestREADMEReasons(t *testing.T) {
	err := retry.Do(t.Context(), retry.Policy{MaxAttempts: -2}, failWith(errDial))

	switch retry.ReasonOf(err) {
	case retry.ReasonCanceled, retry.ReasonDeadline: // our own context; errors.Is finds its error and its cause
	case retry.ReasonExhausted, retry.ReasonElapsed, retry.ReasonBudget, retry.ReasonBorrowed, retry.ReasonRetryAfter: // it might work later
	case retry.ReasonInvalid: // the policy is wrong, and the text says how
	default: // ReasonPermanent, ReasonRejected by RetryIf ...: errors.Is and errors.As find what failed
	}
	assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
}

func TestREADMEJob(t *testing.T) {
	ctx, policy := t.Context(), retry.Policy{MaxAttempts: 3, Backoff: retry.Linear(time.Second)}
	send := failWith(errDial)
	row := struct {
		ID         string
		Attempts   int
		FirstRunAt time.Time
	}{"mail-7", 2, time.Now()}

	job := retryjob.Job{Key: row.ID, Attempt: row.Attempts, Began: row.FirstRunAt}
	retryjob.Run(ctx, policy, job, send, func(o retryjob.Outcome) {
		switch {
		case o.Err == nil: // done
		case o.Retry() || o.Interrupted(): // run it again after o.Delay
		default: // a dead letter, because of o.Reason
		}
	})

	o := retryjob.Decide(ctx, policy, job, errDial)
	assert.True(t, o.Retry())
	assert.Equal(t, 2*time.Second, o.Delay)
}

// The snippets of docs/coming-from.md.

func TestMovedFromCenkalti(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log.SetOutput(&out)
		log.SetFlags(0)
		defer log.SetOutput(os.Stderr)
		defer log.SetFlags(log.LstdFlags)
		ctx, url, calls := t.Context(), "http://example.test", 0
		fetch := func(context.Context, string) (string, error) {
			if calls++; calls < 3 {
				return "", errDial
			}
			return "200 OK", nil
		}

		policy := retry.Policy{
			MaxAttempts: 4,
			Backoff:     retry.Exponential{Base: 50 * time.Millisecond, Factor: 1.5},
			MaxDelay:    time.Minute,
			Jitter:      retry.Proportional(0.5),
			OnEvent: func(_ context.Context, e retry.Event) {
				if e.Kind == retry.RetryScheduled { // OnEvent is called for each attempt and for the end, too
					log.Println(e.Err, "again in", e.Delay)
				}
			},
		}
		status, err := retry.DoValue(ctx, policy, func(ctx context.Context) (string, error) { return fetch(ctx, url) })
		err = retry.LastError(err) // what fetch returned, for == and for logs that stay as they were; nil stays nil

		require.NoError(t, err)
		assert.Equal(t, "200 OK", status)
		assert.Equal(t, 2, strings.Count(out.String(), "connection refused again in"))
		retrytest.Table(t, policy, []retrytest.Row{
			{Attempts: 1, Eligible: true, Lo: 25 * time.Millisecond, Hi: 75 * time.Millisecond},
			{Attempts: 2, Eligible: true, Lo: 37500 * time.Microsecond, Hi: 112500 * time.Microsecond},
		})
	})
}

func TestMovedFromSethvargo(t *testing.T) {
	policy, errBusy, d := retry.Policy{MaxAttempts: 5}, errors.New("busy"), 10*time.Millisecond

	policy.RetryIf = func(err error) bool { return errors.Is(err, errBusy) }

	policy.Backoff = retry.BackoffFunc(func(attempt int) time.Duration { return retry.Fibonacci(d).Delay(attempt + 1) })

	assert.Equal(t, retry.Schedule{d, 2 * d, 3 * d, 5 * d}, policy.Delays(4))
	assert.True(t, policy.Next(retry.Attempt{Number: 1, Err: errBusy}).Retry())
	assert.Equal(t, retry.ReasonRejected, policy.Next(retry.Attempt{Number: 1, Err: errDial}).Reason)
}

type upTo time.Duration

func (u upTo) Window(d time.Duration) (lo, hi time.Duration) { return d, d + time.Duration(u) }

func TestMovedFromAvast(t *testing.T) {
	policy := retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Base: 20 * time.Millisecond}, Jitter: upTo(10 * time.Millisecond)}
	decision := policy.Next(retry.Attempt{Number: 2, Err: errDial})
	assert.Equal(t, 40*time.Millisecond, decision.Lo)
	assert.Equal(t, 50*time.Millisecond, decision.Hi)
}
