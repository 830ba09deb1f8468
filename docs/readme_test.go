package docs_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
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
	"github.com/goretry/retry/retryhttp/httpfault"
	"github.com/goretry/retry/retryjob"
	"github.com/goretry/retry/retrysql"
	"github.com/goretry/retry/retrysql/sqlfault"
)

// Every Go snippet of the README and of the pages in docs is also in a test. The two must be equal
// except for indentation.
func TestEverySnippetOfThePagesIsRunByATest(t *testing.T) {
	var sources []string
	for _, root := range []string{
		"docs", "examples", "integration",
		"adapters/retrycontroller", "adapters/retrygrpc",
	} {
		require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			source, err := os.ReadFile(path)
			sources = append(sources, flush(string(source)))
			return err
		}))
	}
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	for _, page := range append(pages, "README.md") {
		if slices.Contains([]string{"docs/vet.md", "docs/simulate.md"}, page) {
			continue // vet.md shows mistakes, and simulate.md shows the package comment of retrysim
		}
		for _, snippet := range fenced(t, page, "go") {
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
	readme := text(t, "README.md")
	lines := strings.Split(strings.TrimSuffix(readme, "\n"), "\n")
	assert.LessOrEqual(t, len(lines), 130)
	assert.Contains(t, readme, "`go get github.com/goretry/retry`")
	assert.Contains(t, readme, "\ngo run ./examples/quickstart\ngo test ./...\n")
}

// Every relative link of a page leads to a file that exists and to a heading in this file.
func TestEveryLinkLeadsToAFileAndAHeading(t *testing.T) {
	pages := 0
	require.NoError(t, filepath.WalkDir(".", func(page string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(page) != ".md" {
			return err
		}
		pages++
		for _, link := range regexp.MustCompile(`\]\(([^)#: ]*)#?([^):]*)\)`).FindAllStringSubmatch(text(t, page), -1) {
			file := filepath.Join(filepath.Dir(page), link[1])
			if link[1] == "" {
				file = page
			}
			_, err := os.Stat(file)
			assert.NoError(t, err, page)
			if err == nil && link[2] != "" {
				assert.Contains(t, headings(t, file), link[2], page)
			}
		}
		return nil
	}))
	assert.Greater(t, pages, 30)
}

// headings returns the anchors of a page.
func headings(t *testing.T, page string) (anchors []string) {
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text(t, page), -1) {
		anchor := regexp.MustCompile(`[^\pL\d_ -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		anchors = append(anchors, strings.ReplaceAll(anchor, " ", "-"))
	}
	return anchors
}

// Each file that CONTRIBUTING.md names exists.
func TestFilesThatContributingNamesExist(t *testing.T) {
	named := regexp.MustCompile("`([a-z][a-z_./-]+\\.(?:go|md|json|py))`").FindAllStringSubmatch(text(t, "CONTRIBUTING.md"), -1)
	assert.Greater(t, len(named), 30)
	for _, file := range named {
		if file[1] != "example_test.go" && file[1] != "readme_test.go" { // of an adapter
			assert.FileExists(t, filepath.FromSlash(file[1]))
		}
	}
}

// Each test that SECURITY.md and docs/compatibility.md name exists, and each of their limits and
// promises names a test.
func TestPagesNameTestsThatExist(t *testing.T) {
	for page, rows := range map[string]int{"SECURITY.md": 40, "docs/compatibility.md": 8} {
		named := 0
		for line := range strings.Lines(text(t, page)) {
			tests := regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(line, -1)
			if len(tests) > 0 {
				named++
			}
			for _, test := range tests {
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
		assert.GreaterOrEqual(t, named, rows, page)
	}
}

// The README links to the list of packages and adapters, and to the list of examples. Both lists
// are complete.
func TestREADMELeadsToEveryPackageAndExample(t *testing.T) {
	readme, page := text(t, "README.md"), text(t, "docs/packages.md")
	links := func(dir string) bool {
		return strings.Contains(page, "](https://pkg.go.dev/github.com/goretry/retry/"+dir+")") || strings.Contains(page, "](../"+dir+"/README.md)")
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
	assert.Contains(t, readme, "](docs/packages.md)")
	assert.Contains(t, readme, "](examples/README.md)")
}

// The README says the same about speed as the latest run of the benchmarks.
func TestREADMENumbersAreThoseOfTheBenchmarks(t *testing.T) {
	assert.Contains(t, strings.Join(strings.Fields(text(t, "README.md")), " "), "no allocation when the first attempt succeeds")
	first := regexp.MustCompile(`(?m)^\| Calls/FirstTry \| [^|]* \| [0-9.]+x, 0 \|`)
	assert.Regexp(t, first, text(t, "benchmarks/README.md"))
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

// These tests run the snippets of the README, and assert what the README says about them.

// server returns a server without a network whose first answers are faults. Requests after the last
// fault succeed.
func server(faults ...httpfault.Fault) *httpfault.Transport {
	return httpfault.New(answers{}, faults...)
}

// network replaces http.DefaultTransport while a test runs.
func network(t *testing.T, base http.RoundTripper) {
	before := http.DefaultTransport
	http.DefaultTransport = base
	t.Cleanup(func() { http.DefaultTransport = before })
}

// A roundTripper is a function in place of a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// answers is a server without a network: it answers each request with 200.
type answers struct{}

func (answers) RoundTrip(req *http.Request) (*http.Response, error) {
	return httpfault.Status(http.StatusOK, 0)(req, nil)
}

// Package retry tests what the fields do.
func TestREADMEPolicyHasNoFinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		temporary := func(err error) bool { return !errors.Is(err, errBoom) }
		classify := func(error) *retry.Class { return nil }
		var told []retry.Event
		semaphore := func(context.Context, retry.Event) error { return nil }
		budget, observe := &retry.Budget{Size: 100}, func(_ context.Context, e retry.Event) { told = append(told, e) }

		curve := retry.Exponential{Base: time.Second}

		policy := retry.Policy{
			MaxAttempts:    5,                // how many attempts a call may make; or retry.Unlimited
			MaxElapsed:     30 * time.Second, // no retry starts after this time; without another limit, attempts are unlimited
			AttemptTimeout: 2 * time.Second,  // the timeout of each attempt; ctx bounds the whole call
			HealthyAfter:   time.Second,      // after an attempt that ran this long, attempts count from 1 again
			Backoff:        curve,            // such as Exponential, Fixed, Linear, Fibonacci or Schedule
			MaxDelay:       5 * time.Second,  // the longest delay of Backoff and Jitter; a Retry-After may be longer
			Jitter:         retry.FullJitter, // or EqualJitter, or Proportional(0.2), which is ±20 %
			MaxRetryAfter:  time.Minute,      // a longer Retry-After ends the call
			RetryIf:        temporary,        // func(error) bool; nil: every error is retried
			Classify:       classify,         // gives one kind of failure its own limits and delays
			Budget:         budget,           // an allowance of retries that calls share
			Enter:          semaphore,        // is called before each attempt, may wait, and may refuse the attempt
			OnEvent:        observe,          // called for each attempt, for each retry, and at the end
		}

		assert.Empty(t, policy.Lint())
		runs := 0
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(retry.Do(t.Context(), policy, fails(&runs))))
		assert.Equal(t, []int{5, 5 + 5 + 4 + 1, 96}, []int{runs, len(told), budget.Left()})
	})
}

// 1,000 calls to a target that is down make 5,000 attempts without a Budget, and 1,010 with a Budget.
func TestREADMEOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		for range 1000 {
			require.Error(t, retry.Do(t.Context(), retry.Default(), fails(&attempts)))
		}
		assert.Equal(t, 5000, attempts)

		down := server(slices.Repeat([]httpfault.Fault{httpfault.Status(503, 0)}, 5000)...)
		network(t, down)

		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1/orders", nil)
		require.NoError(t, err)

		client := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Default()}}
		resp, err := retryhttp.Result(client.Do(req)) // a status from 400 on is an error

		assert.Nil(t, resp)
		for range 999 {
			assert.ErrorContains(t, err, "503 Service Unavailable")
			_, err = retryhttp.Result(client.Do(req))
		}
		assert.Len(t, down.Calls(), 1010)
	})
}

// database is a driver that counts its commits.
type database struct {
	commits int
	opts    driver.TxOptions // the options of the last transaction
}

func (d *database) Connect(context.Context) (driver.Conn, error) { return connection{d}, nil }
func (d *database) Driver() driver.Driver                        { return nil }

type connection struct{ d *database }

func (c connection) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c connection) Close() error                        { return nil }
func (c connection) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (c connection) Commit() error                       { c.d.commits++; return nil }
func (c connection) Rollback() error                     { return nil }
func (c connection) BeginTx(_ context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.d.opts = opts
	return c, nil
}
func (c connection) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), nil
}

// A sqlState is an error of a database with this code.
type sqlState string

func (s sqlState) Error() string    { return "SQLSTATE " + string(s) }
func (s sqlState) SQLState() string { return string(s) }

// A transaction runs again after a deadlock, and a job can end in each outcome.
func TestREADMETransactionAndJob(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name string
		ctx  context.Context
		work func(context.Context) error
		want string
	}{
		{"a success", t.Context(), func(context.Context) error { return nil }, "done"},
		{"a failure", t.Context(), failWith(errDial), "again after 1ms"},
		{"a shutdown", canceled, func(ctx context.Context) error { return ctx.Err() }, "given back with 0"},
		{"a failure that stays", t.Context(), failWith(retry.Permanent(errDial)), "buried: permanent_error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := new(database)
			db := sql.OpenDB(sqlfault.New(d, sqlfault.Exec(sqlState("40P01"))))
			defer db.Close()
			move := func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 1")
				return err
			}
			row := struct {
				ID         string
				Attempts   int
				FirstRunAt time.Time
			}{"job 17", 1, time.Now()}
			ctx, policy, work := tc.ctx, retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Millisecond)}, tc.work
			var saved string
			save := func(ctx context.Context, text string) { // as a database does with a context that is canceled
				if ctx.Err() == nil {
					saved = text
				}
			}
			done := func(ctx context.Context, _ any) { save(ctx, "done") }
			runAgainAfter := func(ctx context.Context, _ any, wait time.Duration) { save(ctx, "again after "+wait.String()) }
			giveBack := func(ctx context.Context, _ any, attempts int) { save(ctx, fmt.Sprint("given back with ", attempts)) }
			bury := func(ctx context.Context, _ any, letter retryjob.DeadLetter) {
				save(ctx, "buried: "+string(letter.Reason))
			}

			err := retrysql.Tx(ctx, db, nil, policy, func(ctx context.Context, tx *sql.Tx) error { return move(ctx, tx) })
			job := retryjob.Job{Key: row.ID, Attempt: row.Attempts, Began: row.FirstRunAt} // Attempt counts from 1
			retryjob.Run(ctx, policy, job, work, func(o retryjob.Outcome) {
				ctx := context.WithoutCancel(ctx) // a shutdown cancels ctx, and the result must still be written
				switch {
				case o.Err == nil:
					done(ctx, row)
				case o.Retry():
					runAgainAfter(ctx, row, o.Delay)
				case o.Interrupted(): // the worker is shutting down: the attempt does not count
					giveBack(ctx, row, job.Attempt-1)
				default:
					bury(ctx, row, o.DeadLetter(job)) // a dead letter
				}
			})

			assert.Equal(t, tc.want, saved)
			if tc.ctx.Err() == nil {
				require.NoError(t, err)
				assert.Equal(t, 1, d.commits)
			}
		})
	}
}
