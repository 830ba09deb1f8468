package faults

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp/httpfault"
	"github.com/goretry/retry/retrysql/sqlfault"
	"github.com/goretry/retry/retrytest"
)

const url = "http://shop.example/"

var policy = retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}

// lost has the names of the programs whose state survives an attempt, in a build with
// the tag retrytwice. Then nothing fails by a script: answers are lost instead.
var lost []string

func script[F any](faults ...F) []F {
	if lost != nil {
		return nil
	}
	return faults
}

// Each test is run against both programs: it must find something in the first
// and nothing in the second.
func TestFaults(t *testing.T) {
	for _, row := range []struct {
		name  string
		tests programs
		found string
	}{
		{"a body read once", pair(uploadBroken, upload, testUpload), `actual  : ""`},
		{"an unbuffered pipe", pair(exportBroken, export, testExport), "io: read/write on closed pipe"},
		{"a slice appended to", pair(listBroken, list, testList), `actual  : []string{"ada", "bob", `},
		{"a slice appended to, by Repeatable", pair(appendBroken, appendRepaired, testAppend), "retrytest: the first run returned"},
		{"money added twice", pair(payInBroken, payIn, testPayIn), `actual  : "{\"Balance\":120}"`},
		{"a transaction retried around its commit", pair(transferBroken, transfer, testTransfer), "actual  : 80"},
		{"rows left open", pair(notifyBroken, notifyAll, testNotify), "connections still in use"},
		{"a POST without a key", pair(orderBroken, order, testOrder), "actual  : 2"},
		{"a Retry-After ignored", pair(pollBroken, poll, testPoll), "the server asked for 30s"},
		{"a cancel ignored", pair(fetchBroken, fetch, testFetch), `actual  : "1h0m0s"`},
		{"a 404 retried", pair(lookUpBroken, lookUp, testLookUp), "should have 1 item(s), but has 3"},
		{"a response body leaked", pair(pingBroken, ping, testPing), "bodies that are not closed"},
		{"a lock held during the wait", pair((*cache).refreshBroken, (*cache).refresh, testRefresh), "the lock is held during the wait"},
	} {
		if lost != nil && !slices.Contains(lost, row.name) {
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				found := &findings{TB: t}
				row.tests.broken(found)
				assert.Contains(t, strings.Join(found.texts, "\n"), row.found)
			})
			synctest.Test(t, func(t *testing.T) { row.tests.repaired(t) })
		})
	}
}

// Programs are a test of a broken program and of its repaired twin.
type programs struct{ broken, repaired func(testing.TB) }

func pair[F any](broken, repaired F, test func(testing.TB, F)) programs {
	return programs{func(t testing.TB) { test(t, broken) }, func(t testing.TB) { test(t, repaired) }}
}

// Findings is a testing.TB that notes what a test finds.
type findings struct {
	testing.TB
	texts []string
}

func (f *findings) Helper() {}
func (f *findings) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

// A request is what a program does with an HTTP client.
type request = func(context.Context, *http.Client, retry.Policy, string) error

func testUpload(t testing.TB, upload func(context.Context, *http.Client, retry.Policy, string, io.Reader) error) {
	shop := &server{}
	faults := httpfault.New(shop, script(httpfault.Status(http.StatusServiceUnavailable, 0))...)
	assert.NoError(t, upload(t.Context(), &http.Client{Transport: faults}, policy, url, strings.NewReader("one teapot")))
	assert.Equal(t, "one teapot", shop.body)
}

func testExport(t testing.TB, export func(context.Context, *http.Client, retry.Policy, string, []string) error) {
	shop := &server{}
	faults := httpfault.New(shop, script(httpfault.Before(syscall.ECONNREFUSED))...)
	assert.NoError(t, export(t.Context(), &http.Client{Transport: faults}, policy, url, []string{"ada", "bob"}))
}

func testList(t testing.TB, list func(context.Context, *http.Client, retry.Policy, string) ([]string, error)) {
	shop := &server{answers: map[string]string{"page=1": "ada bob", "page=2": "cy"}}
	faults := httpfault.New(shop, script(nil, httpfault.Status(http.StatusBadGateway, 0))...) // the second page
	names, err := list(t.Context(), &http.Client{Transport: faults}, policy, url)
	assert.NoError(t, err)
	assert.Equal(t, []string{"ada", "bob", "cy"}, names)
}

// If a test can reach the operation itself, Repeatable needs no faults.
func testAppend(t testing.TB, operation func(*[]string) func(context.Context) error) {
	var names []string
	run := operation(&names)
	retrytest.Repeatable(t, func(ctx context.Context) ([]string, error) {
		err := run(ctx)
		return names, err
	})
}

func appendBroken(names *[]string) func(context.Context) error {
	return func(context.Context) error {
		*names = append(*names, "ada", "bob")
		return nil
	}
}

func appendRepaired(names *[]string) func(context.Context) error {
	return func(context.Context) error {
		*names = []string{"ada", "bob"}
		return nil
	}
}

func testPayIn(t testing.TB, payIn func(context.Context, *http.Client, retry.Policy, string, *account, int) error) {
	shop := &server{}
	faults := httpfault.New(shop, script(httpfault.After(syscall.ECONNRESET))...)
	assert.NoError(t, payIn(t.Context(), &http.Client{Transport: faults}, policy, url, &account{Balance: 100}, 10))
	assert.Equal(t, `{"Balance":110}`, shop.body)
}

func testTransfer(t testing.TB, transfer func(context.Context, *sql.DB, retry.Policy, int) error) {
	db := bank(t, script(sqlfault.AfterCommit(io.ErrUnexpectedEOF))...)
	_ = transfer(t.Context(), db, policy, 10) // it may report that the outcome is unknown
	var balance int
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT balance FROM accounts WHERE id = 1").Scan(&balance))
	assert.Equal(t, 90, balance)
}

func testNotify(t testing.TB, notifyAll func(context.Context, *sql.DB, retry.Policy, func(int) error) error) {
	db := bank(t)
	busy := errors.New("busy")
	notify := retrytest.NewOp(busy, nil)
	assert.NoError(t, notifyAll(t.Context(), db, policy, func(int) error { return notify.Run(t.Context()) }))
	assert.Zero(t, db.Stats().InUse, "connections still in use")
}

func testOrder(t testing.TB, order func(context.Context, *http.Client, retry.Policy, string, string) error) {
	shop := &server{}
	faults := httpfault.New(shop, script(httpfault.After(syscall.ECONNRESET))...)
	assert.NoError(t, order(t.Context(), &http.Client{Transport: faults}, policy, url, "one teapot"))
	assert.Equal(t, 1, shop.orders)
}

func testPoll(t testing.TB, poll request) {
	const wait = 30 * time.Second
	faults := httpfault.New(&server{}, httpfault.Status(http.StatusServiceUnavailable, wait))
	assert.NoError(t, poll(t.Context(), &http.Client{Transport: faults}, policy, url))
	calls := faults.Calls()
	assert.GreaterOrEqual(t, calls[1].Time.Sub(calls[0].Time), wait, "the server asked for %v", wait)
}

func testFetch(t testing.TB, fetch request) {
	faults := httpfault.New(&server{}, httpfault.Slow(time.Hour, nil))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := time.Now()
	_ = fetch(ctx, &http.Client{Transport: faults}, policy, url)
	assert.Equal(t, time.Minute.String(), time.Since(start).String())
}

func testLookUp(t testing.TB, lookUp request) {
	gone := httpfault.Status(http.StatusNotFound, 0)
	faults := httpfault.New(&server{}, gone, gone, gone)
	assert.Error(t, lookUp(t.Context(), &http.Client{Transport: faults}, policy, url))
	assert.Len(t, faults.Calls(), 1)
}

func testPing(t testing.TB, ping request) {
	faults := httpfault.New(&server{}, httpfault.Status(http.StatusBadGateway, 0))
	assert.NoError(t, ping(t.Context(), &http.Client{Transport: faults}, policy, url))
	assert.Zero(t, faults.Open(), "bodies that are not closed")
}

func testRefresh(t testing.TB, refresh func(*cache, context.Context, *http.Client, retry.Policy, string) error) {
	c := &cache{}
	p := policy
	p.OnEvent = func(_ context.Context, e retry.Event) {
		if e.Kind != retry.RetryScheduled {
			return
		}
		if assert.True(t, c.mu.TryLock(), "the lock is held during the wait") {
			c.mu.Unlock()
		}
	}
	faults := httpfault.New(&server{}, httpfault.Status(http.StatusBadGateway, 0))
	assert.NoError(t, refresh(c, t.Context(), &http.Client{Transport: faults}, p, url))
}

// A server is a shop without a network. It keeps the last body, and carries out an
// order that has a key only once.
type server struct {
	answers map[string]string // by query
	body    string
	keys    []string
	orders  int
}

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		s.body = string(body)
	}
	if key := req.Header.Get("Idempotency-Key"); req.Method == "POST" && (key == "" || !slices.Contains(s.keys, key)) {
		s.keys = append(s.keys, key)
		s.orders++
	}
	w := httptest.NewRecorder()
	_, err := io.WriteString(w, s.answers[req.URL.RawQuery])
	return w.Result(), err
}

// bank returns a database of two accounts with 100 each.
func bank(t testing.TB, script ...sqlfault.Fault) *sql.DB {
	name := "file:" + t.TempDir() + "/bank.db"
	plain, err := sql.Open("sqlite", name)
	require.NoError(t, err)
	_, err = plain.ExecContext(t.Context(), "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER); INSERT INTO accounts VALUES (1, 100), (2, 100)")
	require.NoError(t, err)
	require.NoError(t, plain.Close())
	faults, err := sqlfault.Open("sqlite", name, script...)
	require.NoError(t, err)
	db := sql.OpenDB(faults)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}
