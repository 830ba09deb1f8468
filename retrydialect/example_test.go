package retrydialect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
	"github.com/goretry/retry/retryhttp"
)

func ExampleTasker() {
	var step struct {
		Name  string              `json:"name"`
		Retry retrydialect.Tasker `json:"retry"`
	}
	text := `{"name": "charge", "retry": {"max_attempts": 5, "backoff_base_ms": 5000, "max_backoff_ms": 30000}}`
	if err := json.Unmarshal([]byte(text), &step); err != nil {
		log.Fatal(err)
	}
	policy, err := step.Retry.Policy()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(policy)
	fmt.Println(policy.Delays(-1))

	err = json.Unmarshal([]byte(`{"name": "charge", "retry": {"max_attempt": 5}}`), &step)
	fmt.Println(err)
	// Output:
	// 5 attempts, exponential 5s x2, at most 30s
	// [5s 10s 20s 30s]
	// retrydialect: Tasker: unknown key "max_attempt": the keys of Tasker are retryable, max_attempts, backoff, backoff_base_ms, max_backoff_ms
}

func ExampleArgyll() {
	for _, work := range []retrydialect.Argyll{
		{MaxRetries: 3, Backoff: 1000, MaxBackoff: 60000, BackoffType: "linear"},
		{MaxRetries: -1, Backoff: 1000, MaxBackoff: 500, BackoffType: "linear"},
	} {
		policy, err := work.Policy()
		fmt.Println(policy, err)
	}
	// Output:
	// 4 attempts, linear 1s, at most 1m0s <nil>
	// 1 attempt retrydialect: Argyll: max_backoff is 500: write at least the backoff, 1000, or 0 for no cap
}

// argyllTransport returns a Transport that retries as Argyll does. Its Advise ignores
// Retry-After, so only the policy sets the delays.
func argyllTransport(p retry.Policy) *retryhttp.Transport {
	t := &retryhttp.Transport{
		Policy:     p,
		Idempotent: func(*http.Request) bool { return true },
		Advise:     func(*http.Response) retryhttp.Advice { return retryhttp.Advice{} },
	}
	t.Check = func(req *http.Request, resp *http.Response, err error) error {
		switch {
		case err != nil:
			return err
		case resp.StatusCode < 400:
			return nil
		case retrydialect.ArgyllRetryable(resp.StatusCode, nil):
			return t.StatusError(req, resp)
		default:
			return retry.Permanent(t.StatusError(req, resp))
		}
	}
	return t
}

// The server asks for a wait of an hour, and Argyll ignores it.
func ExampleArgyllRetryable() {
	busy := 2
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if busy--; busy >= 0 {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()

	work := retrydialect.Argyll{MaxRetries: 3, Backoff: 1, MaxBackoff: 10, BackoffType: "linear"}
	policy, err := work.Policy()
	if err != nil {
		log.Fatal(err)
	}
	policy.OnEvent = func(_ context.Context, e retry.Event) {
		if e.Kind == retry.RetryScheduled {
			fmt.Println("again in", e.Delay)
		}
	}
	client := &http.Client{Transport: argyllTransport(policy)}
	resp, err := client.Post(server.URL, "application/json", strings.NewReader("{}"))
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// again in 1ms
	// again in 2ms
	// 200 OK
}

// A worker has parameters. Each job may have its own limit.
func ExampleTaskHarbor() {
	parameters := retrydialect.DefaultTaskHarbor()
	parameters.Jitter = 0.1
	policy, err := parameters.Policy()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(policy)
	for _, job := range []int{0, 5, 100} {
		fmt.Println(job, "->", policy.ForJob(job).EffectiveMax())
	}

	var none *retrydialect.TaskHarbor
	policy, err = none.Policy()
	fmt.Println(policy.ForJob(5).Next(retry.Attempt{Number: 1}).Reason, err)
	// Output:
	// 25 attempts, exponential 200ms x2, at most 5s, ±10%
	// 0 -> 25
	// 5 -> 5
	// 100 -> 25
	// not_retryable <nil>
}
