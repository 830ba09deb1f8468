package vet

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRules has what neither the cases nor docs/vet.md show: code, then the operation
// of a call, if there is one, and how the only report begins, if there is one.
func TestRules(t *testing.T) {
	rows := []struct{ name, want, code, op string }{
		{"assigned to blank", "lost: the error of retry.Do is dropped", `_ = retry.Do(ctx, policy, ping)`, ``},
		{"only the value", "lost: the error of retry.DoValue is dropped",
			`all, _ = retry.DoValue(ctx, policy, fetch)`, ``},
		{"the value is tested", "", `
			all, _ = retry.DoValue(ctx, policy, fetch)
			if len(all) == 0 { all = nil }`, ``},
		{"a comment says why", "", `
			// It only warms a cache.
			_ = retry.Do(ctx, policy, ping)`, ``},
		{"cleanup", "", `defer func() { _ = retry.Do(ctx, policy, ping) }()`, ``},
		{"OnEvent tells", "", `
			p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(0)}
			p.OnEvent = func(_ context.Context, e retry.Event) { log.Println(e.Kind, e.Err) }
			_ = retry.Do(ctx, p, ping)`, ``},
		{"kept outside", "", `
			var last error
			retry.Do(ctx, policy, func(ctx context.Context) error { last = ping(ctx); return last })
			log.Println(last)`, ``},
		{"the Decision tells", "", `
			d, _ := retry.Once(ctx, policy, retry.Attempt{}, ping)
			log.Println(d.Retry())`, ``},
		{"Delay at once", "lost: Delay is also set", `time.Sleep(policy.Next(retry.Attempt{Number: 1}).Delay)`, ``},
		{"a Decision that is asked", "", `
			d := policy.Next(retry.Attempt{Number: 1})
			if d.Retry() { time.Sleep(d.Delay) }`, ``},
		{"changed after its use", "lost: p is a copy", `
			p := policy
			err = retry.Do(ctx, p, ping)
			p.MaxAttempts = 3`, ``},
		{"only the text of a mark", "lost: only the text of retry.Permanent(err)",
			`err = fmt.Errorf("ping: %v", retry.Permanent(err))`, ``},
		{"logged and dropped", "lost: retry.Do takes nil for success", ``, `
			if err := ping(attempt); err != nil {
				log.Println(err)
				return nil
			}
			return confirm(attempt)`},
		{"never fails", "lost: retry.Do takes nil for success", ``, `
			_ = ping(attempt)
			return nil`},
		{"an optional part", "", ``, `
			if err := ping(attempt); err != nil { return err }
			if err := confirm(attempt); err != nil {
				log.Println(err)
				return nil
			}
			return ping(attempt)`},
		{"stays locked", "repeated: an attempt that fails leaves mu locked", `var mu sync.Mutex`, `
			mu.Lock()
			if err := ping(attempt); err != nil { return err }
			mu.Unlock()
			return nil`},
		{"sync.Once", "repeated: once runs its function in the first attempt only", `var once sync.Once`, `
			var err error
			once.Do(func() { err = ping(attempt) })
			return err`},
		{"counted up and down", "", `var wg sync.WaitGroup`, `
			wg.Add(1)
			defer wg.Done()
			return ping(attempt)`},
		{"received", "repeated: the attempt takes from items", `items := make(chan []byte, 9)`, `
			item := <-items
			return upload(attempt, bytes.NewReader(item))`},
		{"swapped", "repeated: the attempt takes from batch", `var batch atomic.Pointer[[]byte]`, `
			all := batch.Swap(nil)
			return upload(attempt, bytes.NewReader(*all))`},
		{"the next host", "", `hosts := make(chan []byte, 9)`, `
			host := <-hosts
			return upload(attempt, bytes.NewReader(host))`},
		{"put back", "", `items := make(chan []byte, 9)`, `
			item := <-items
			err := upload(attempt, bytes.NewReader(item))
			if err != nil { items <- item }
			return err`},
		{"taken after a failure", "", `items := make(chan []byte, 9)`, `
			if err := ping(attempt); err == nil { return nil }
			item := <-items
			return upload(attempt, bytes.NewReader(item))`},
		{"a key in a variable", "repeated: each attempt makes a new orderID", ``, `
			orderID := strconv.Itoa(rand.Int())
			return upload(attempt, strings.NewReader(orderID))`},
		{"a transaction", "stale: tx was begun outside", `tx, _ := db.BeginTx(ctx, nil)`, `
			_, err := tx.ExecContext(attempt, "DELETE FROM t")
			return err`},
		{"a savepoint", "", `tx, _ := db.BeginTx(ctx, nil)`, `
			_, err := tx.ExecContext(attempt, "SAVEPOINT s")
			return err`},
		{"a connection of the pool", "stale: conn was connected outside", `conn, _ := db.Conn(ctx)`,
			`return conn.PingContext(attempt)`},
		{"a bound of all attempts", "", `late := time.After(time.Second)`, `
			select {
			case <-late: return retry.Permanent(ping(attempt))
			default: return ping(attempt)
			}`},
		{"a body that is read", "", ``, `
			resp, err := http.Get(url)
			if err != nil { return err }
			defer resp.Body.Close()
			_, err = io.ReadAll(resp.Body)
			return err`},
		{"a leaked body", "response: an attempt that fails here leaves the body of resp open", ``, `
			resp, err := http.Get(url)
			if err != nil { return err }
			if resp.StatusCode > 299 { return errors.New(resp.Status) }
			return resp.Body.Close()`},
		{"rows that end", "response: what db.QueryContext returns ends with its attempt", `
			p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(0), AttemptTimeout: time.Second}
			var rows *sql.Rows
			err = retry.Do(ctx, p, func(attempt context.Context) (err error) {
				rows, err = db.QueryContext(attempt, "SELECT 1")
				return err
			})
			log.Println(rows.Next())`, ``},
		{"a response whose status is read", "", `
			p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(0), AttemptTimeout: time.Second}
			var resp *http.Response
			err = retry.Do(ctx, p, func(attempt context.Context) (err error) {
				resp, err = http.DefaultClient.Do((&http.Request{}).WithContext(attempt))
				return err
			})
			log.Println(resp != nil && resp.StatusCode == 200)`, ``},
		{"sleeps in OnEvent", "hooks: the call waits until time.Sleep returns",
			`policy.OnEvent = func(_ context.Context, e retry.Event) { time.Sleep(e.Delay) }`,
			`return ping(attempt)`},
		{"RetryIf turned around", "hooks: RetryIf returns true for what to retry",
			`policy.RetryIf = func(err error) bool { return retry.IsPermanent(err) }`, `return ping(attempt)`},
		{"a hot loop", "nested: the loop calls retry.Do again at once", `
			for {
				if err := retry.Do(ctx, policy, ping); err != nil { log.Println(err) }
			}`, ``},
		{"three times", "nested: the loop calls retry.Do again at once", `
			for range 3 {
				if err = retry.Do(ctx, policy, ping); err == nil { return nil }
			}`, ``},
		{"a loop that waits", "", `
			for {
				if err := retry.Do(ctx, policy, ping); err != nil { log.Println(err) }
				<-results
			}`, ``},
		{"a Timeout set later", "nested: Timeout bounds all attempts", `
			client := &http.Client{Transport: &retryhttp.Transport{}}
			client.Timeout = time.Second
			_ = client`, ``},
		{"a Transport inside", "nested: the Transport of client retries too", `
			client := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Default()}}
			err = retry.Do(ctx, retry.Default(), func(context.Context) error {
				resp, err := client.Get(url)
				defer resp.Body.Close()
				return retryhttp.Check(nil, resp, err)
			})`, ``},
		{"only logged", "", `
			err = retry.Do(ctx, retry.Default(), func(ctx context.Context) error {
				if err := retry.Do(ctx, retry.Default(), ping); err != nil { log.Println(err) }
				return confirm(ctx)
			})`, ``},
		{"a request of all attempts", "outerctx: req has the context of all attempts",
			`req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)`, `
			resp, err := http.DefaultClient.Do(req)
			defer resp.Body.Close()
			return retryhttp.Check(req, resp, err)`},
		{"detached", "", ``, `return ping(context.WithoutCancel(attempt))`},
		{"a time that began before", "outerctx: the time of each began before", `
			each, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()`, `return ping(each)`},
		{"the parent", "outerctx: ping gets the context of all attempts", `
			parent := ctx
			ctx, cancel := context.WithCancel(parent)
			defer cancel()`, `return ping(parent)`},
		{"a report's own time", "", ``, `
			err := ping(attempt)
			if err != nil {
				brief, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				if err := confirm(brief); err != nil { log.Println(err) }
			}
			return err`},
		{"MaxRetries of 0", "policyliteral: MaxRetries of 0 is not set", `
			policy = retry.Default()
			policy.MaxRetries = 0`, `return ping(attempt)`},
		{"0 where nothing is retried", "", `
			p := retry.Policy{MaxAttempts: 3, NonRetryable: len(data) > 0}
			p.MaxAttempts = 0
			err = retry.Do(ctx, p, ping)`, ``},
		{"one of two limits is 0", "", `
			policy = retry.Default()
			policy.MaxAttempts = 0
			policy.MaxElapsed = time.Minute`, `return ping(attempt)`},
		{"a timeout above the limit", "policyliteral: AttemptTimeout of 1m0s is longer than MaxElapsed of 1s", `
			p := retry.Policy{MaxElapsed: time.Second, AttemptTimeout: time.Minute, Jitter: jitter}
			err = retry.Do(ctx, p, ping)`, ``},
		{"a timeout set later", "policyliteral: AttemptTimeout of 1m0s is longer than MaxElapsed of 1s", `
			policy.MaxElapsed = time.Second
			policy.AttemptTimeout = time.Minute`, `return ping(attempt)`},
		{"a curve without a unit", "policyliteral: 500 is 500 nanoseconds", `policy.Backoff = retry.Fixed(500)`,
			`return ping(attempt)`},
		{"seconds as nanoseconds", "policyliteral: seconds counts nanoseconds here", `
			seconds, _ := strconv.Atoi(url)
			err = retry.After(time.Duration(seconds), err)`, ``},
		{"RetryIf without a limit", "policyliteral: RetryIf without a limit", `
			p := retry.Policy{RetryIf: func(error) bool { return true }}
			err = retry.Do(ctx, p, ping)`, ``},
		{"no such Reason", `policyliteral: no Reason is "exhausted"`,
			`log.Println(retry.ReasonOf(err) == "exhausted")`, ``},
		{"a Class without a name", "policyliteral: this Class has no Name",
			`log.Println(retry.Class{Name: "busy"}, retry.Class{MaxAttempts: 2})`, ``},
		{"a Budget for one call", "policyliteral: this Budget is made for one call",
			`policy.Budget = &retry.Budget{Size: 3}`, `return ping(attempt)`},
		{"a Budget for all calls", "", `
			policy.Budget = &retry.Budget{Size: 3}
			for _, ping := range pings { err = errors.Join(err, retry.Do(ctx, policy, ping)) }`, ``},
		{"rewound by another package", "", `rd := map[string]rewinder{}[url]`, `
			if err := rd.Rewind(); err != nil { return err }
			return upload(attempt, rd)`},
		{"made anew by a method", "", `s := &source{}`, `
			s.restart()
			return upload(attempt, s.body)`},
		{"rewound by another name", "", `
			var body io.Reader = bytes.NewReader(data)
			seeker := body.(io.Seeker)`, `
			seeker.Seek(0, io.SeekStart)
			return upload(attempt, body)`},
		{"a scanner", "consumed: lines comes from outside", `lines := bufio.NewScanner(bytes.NewReader(data))`, `
			for lines.Scan() { if err := ping(attempt); err != nil { return err } }
			return lines.Err()`},
		{"LastError in a branch", "", `
			err = retry.Do(ctx, policy, ping)
			if err != nil { err = retry.Unwrap(err) }
			log.Println(err == io.EOF)`, ``},
		{"errors.As in a branch", "", `
			err = retry.Do(ctx, policy, ping)
			if e := (*retry.Error)(nil); errors.As(err, &e) { err = e.Err }
			log.Println(err == io.EOF)`, ``},
		{"a digest", "accumulate: h keeps what a failed attempt wrote", `h := sha256.New()`, `
			if _, err := h.Write(data); err != nil { return err }
			return ping(attempt)`},
		{"a buffer that is emptied", "", `var b bytes.Buffer`, `
			b.Reset()
			if _, err := io.Copy(&b, bytes.NewReader(data)); err != nil { return err }
			return ping(attempt)`},
	}
	var codes []string
	for _, row := range rows {
		if row.op != "" {
			row.code += "\nerr = retry.Do(ctx, policy, func(attempt context.Context) error {\n" + row.op + "\n})"
		}
		codes = append(codes, row.code)
	}
	for i, reports := range reported(t, codes) {
		t.Run(rows[i].name, func(t *testing.T) {
			if rows[i].want == "" {
				assert.Empty(t, reports)
				return
			}
			require.Len(t, reports, 1)
			assert.True(t, strings.HasPrefix(reports[0], rows[i].want), reports[0])
		})
	}
}

// reported returns what the checks report about each snippet.
func reported(t *testing.T, codes []string) (reports [][]string) {
	dir := module(t)
	for i, code := range codes {
		program(t, filepath.Join(dir, "docs", "rules", strconv.Itoa(i)), " "+strings.ReplaceAll(code, "\n", "\n ")+"\n", " ")
	}
	found := findings(t, dir)
	for i := range codes {
		reports = append(reports, found["misuse/docs/rules/"+strconv.Itoa(i)])
	}
	return reports
}
