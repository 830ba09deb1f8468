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
		{"a key in a variable", "idempotent: each attempt makes a new orderID", ``, `
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
		{"a curve without a unit", "unit: 500 is 500 nanoseconds", `policy.Backoff = retry.Fixed(500)`,
			`return ping(attempt)`},
		{"seconds as nanoseconds", "unit: seconds counts nanoseconds here", `
			seconds, _ := strconv.Atoi(url)
			err = retry.After(time.Duration(seconds), err)`, ``},
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
		{"a key that its header names", "", ``, `
			req, _ := http.NewRequestWithContext(attempt, "POST", url, nil)
			req.Header.Set("X-Event-Id", url)
			resp, err := http.DefaultClient.Do(req)
			defer resp.Body.Close()
			return retryhttp.Check(req, resp, err)`},
		{"a key of each attempt", "idempotent: if the answer to this POST is lost", ``, `
			req, _ := http.NewRequestWithContext(attempt, "POST", url, nil)
			req.Header.Set("X-Request-Id", strconv.Itoa(rand.Int()))
			resp, err := http.DefaultClient.Do(req)
			defer resp.Body.Close()
			return retryhttp.Check(req, resp, err)`},
		{"a question", "", ``, `
			resp, err := http.Post(url+"/search", "text/plain", nil)
			defer resp.Body.Close()
			return retryhttp.Check(nil, resp, err)`},
		{"a checkout", "idempotent: if the answer to this POST is lost", ``, `
			resp, err := http.Post(url+"/checkout", "text/plain", nil)
			defer resp.Body.Close()
			return retryhttp.Check(nil, resp, err)`},
		{"once", "", `policy = retry.Policy{MaxAttempts: 1}
			err = retry.Do(ctx, retry.Policy{MaxAttempts: 1}, func(context.Context) error {
				resp, err := http.Post(url, "text/plain", nil)
				defer resp.Body.Close()
				return retryhttp.Check(nil, resp, err)
			})`, ``},
		{"the Transport of language models", "idempotent: if the answer to this POST is lost", `
			client := &http.Client{Transport: retryhttp.LLM(policy)}
			resp, err := client.Post(url, "text/plain", nil)
			log.Println(client, resp.StatusCode, err)`, ``},
		{"no end but by a signal", "", `
			background, stop := signal.NotifyContext(context.Background())
			defer stop()
			err = retry.Do(background, retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Second)}, ping)`, ``},
		{"time for all and for each", "", `
			p := retry.Policy{MaxElapsed: time.Minute, AttemptTimeout: time.Second, Backoff: retry.Fixed(time.Second)}
			err = retry.Do(context.Background(), p, ping)`, ``},
		{"time for all alone", "endless: nothing ends this retry.Do", `
			p := retry.Policy{MaxElapsed: time.Minute, Backoff: retry.Fixed(time.Second)}
			err = retry.Do(context.Background(), p, ping)`, ``},
		{"a tenth of a second", "", `
			var mu sync.Mutex
			mu.Lock()
			err = retry.Do(ctx, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(50 * time.Millisecond)}, ping)
			mu.Unlock()`, ``},
		{"more than that", "held: mu is held while retry.Do retries", `
			var mu sync.Mutex
			mu.Lock()
			err = retry.Do(ctx, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(51 * time.Millisecond)}, ping)
			mu.Unlock()`, ``},
		{"a Transport under a lock", "held: mu is held while the Transport retries", `
			client := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Default()}}
			var mu sync.Mutex
			mu.Lock()
			defer mu.Unlock()
			resp, err := client.Get(url)
			log.Println(client, resp.StatusCode, err)`, ``},
		{"a lock for the caller", "", `
			var mu sync.Mutex
			mu.Lock()
			if err = retry.Do(ctx, policy, ping); err != nil {
				mu.Unlock()
				return err
			}`, ``},
		{"a Gate kept by a struct", "", `
			s := struct{ gate retry.Gate }{}
			err = retry.Do(ctx, policy, s.gate.Hold(url, ping))`, ``},
		{"a Gate of one call", "percall: this Gate is made for each call", `
			var gate retry.Gate
			err = retry.Do(ctx, policy, gate.Hold(url, ping))`, ``},
		{"a Budget of two calls", "", `
			policy.Budget = &retry.Budget{Size: 3}
			err = errors.Join(retry.Do(ctx, policy, ping), retry.Do(ctx, policy, confirm))`, ``},
		{"a Budget in a loop", "", `
			policy.Budget = &retry.Budget{Size: 3}
			for _, each := range pings { err = retry.Do(ctx, policy, each) }`, ``},
		{"a Budget of each round", "percall: this Budget is made for each call", `
			for _, each := range pings {
				policy := retry.Default()
				policy.Budget = &retry.Budget{Size: 3}
				err = retry.Do(ctx, policy, each)
			}`, ``},
		{"a Budget that is made once", "", `
			var once sync.Once
			once.Do(func() {
				policy := retry.Default()
				policy.Budget = &retry.Budget{Size: 3}
				err = retry.Do(ctx, policy, ping)
			})`, ``},
		{"a Budget that a map keeps too", "", `
			budget := &retry.Budget{Size: 3}
			policy.Budget = budget
			map[string]*retry.Budget{}[url] = budget
			err = retry.Do(ctx, policy, ping)`, ``},
		{"a Budget that is the only limit", "", `
			p := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Second), Budget: &retry.Budget{Size: 3}}
			err = retry.Do(ctx, p, ping)`, ``},
		{"a Budget lent to the layers", "", `err = retry.Do(retry.WithBudget(ctx, &retry.Budget{Size: 3}), policy, ping)`, ``},
		{"a Transport that remembers elsewhere", "", `
			client := &http.Client{Transport: &retryhttp.Transport{Policy: policy, Budgets: retryhttp.NoBudgets}}
			resp, err := client.Get(url)
			log.Println(resp.StatusCode, err)`, ``},
		{"a Transport of two requests", "", `
			client := &http.Client{Transport: &retryhttp.Transport{Policy: policy}}
			for range 2 {
				resp, err := client.Get(url)
				log.Println(resp.StatusCode, err)
			}`, ``},
		{"a hot Class", "policyliteral: all 3 attempts of this Class", `log.Println(retry.Class{MaxAttempts: 3, Backoff: retry.Fixed(0)})`, ``},
		{"one retry at once", "", `log.Println(retry.Class{MaxAttempts: 2, Backoff: retry.Fixed(0)})`, ``},
		{"a limit of the environment", "policyliteral: MaxAttempts is set from outside, where 0 turns it off",
			`n, _ := strconv.Atoi(url); policy.MaxAttempts = n`, `return ping(attempt)`},
		{"a limit of a flag", "policyliteral: MaxRetries is set from outside", `
			n := flag.Int("retries", 2, "")
			policy.MaxRetries = *n`, `return ping(attempt)`},
		{"a limit that is looked at", "", `
			n, _ := strconv.Atoi(url)
			if n < 1 { return }
			policy.MaxAttempts = n`, `return ping(attempt)`},
		{"a limit that a switch looks at", "", `
			n, _ := strconv.Atoi(url)
			switch n {
			case 0: return
			default: policy.MaxAttempts = n
			}`, `return ping(attempt)`},
		{"a limit beside another n", "policyliteral: MaxAttempts is set from outside", `
			if n := len(all); n < 1 { return }
			n, _ := strconv.Atoi(url)
			policy.MaxAttempts = n`, `return ping(attempt)`},
		{"a limit as vet asks", "", `
			n, _ := strconv.Atoi(url)
			policy, err = policy.WithMaxAttempts(n)`, `return ping(attempt)`},
		{"one Class for all", "policyliteral: Classify gives every error this Class",
			`policy.Classify = func(error) *retry.Class { return &retry.Class{Name: "any", MaxAttempts: 3} }`, `return ping(attempt)`},
		{"a Class that depends on the error", "",
			`policy.Classify = func(err error) *retry.Class { return &retry.Class{Name: err.Error(), MaxAttempts: 3} }`, `return ping(attempt)`},
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
