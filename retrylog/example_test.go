package retrylog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// crashed is the log of a job whose first attempt failed. A crash then cut off the log.
const crashed = `{"key":"17","kind":"attempt_started","time":"2026-11-20T10:00:00Z","attempt":1,"max":3}
{"key":"17","kind":"attempt_finished","time":"2026-11-20T10:00:00.03Z","attempt":1,"max":3,"err":"connection refused","took":"30ms","elapsed":"30ms"}
{"key":"17","kind":"retry_scheduled","time":"2026-11-20T10:00:00.03Z","attempt":1,"max":3,"err":"connection refused","elapsed":"30ms","delay":"200ms","due":"2026-11-20T10:00:00.23Z","lo":"200ms","hi":"200ms"}
{"key":"17","kind":"attempt_started","time":"2026-11-20T10:00:00.23Z","attempt":2,"max":3,"elapsed":"230ms"}
{"key":"17","kind":"attempt_fin`

// Each retry is logged on one line. The end of the call is logged on another line.
func ExampleSlog() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "due" || a.Key == "elapsed" { // they differ from run to run
				return slog.Attr{}
			}
			return a
		},
	}))
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond), OnEvent: retrylog.Slog(logger)}

	calls := 0
	_ = retry.Do(context.Background(), policy, func(context.Context) error {
		if calls++; calls < 3 {
			return errors.New("connection refused")
		}
		return nil
	})
	_ = retry.Do(context.Background(), policy, func(context.Context) error { return errors.New("connection refused") })
	// Output:
	// level=WARN msg="retry scheduled" kind=retry_scheduled attempt=1 max=3 delay=1ms lo=1ms hi=1ms err="connection refused"
	// level=WARN msg="retry scheduled" kind=retry_scheduled attempt=2 max=3 delay=1ms lo=1ms hi=1ms err="connection refused"
	// level=INFO msg="succeeded after retries" kind=call_finished attempt=3 max=3 reason=success
	// level=WARN msg="retry scheduled" kind=retry_scheduled attempt=1 max=3 delay=1ms lo=1ms hi=1ms err="connection refused"
	// level=WARN msg="retry scheduled" kind=retry_scheduled attempt=2 max=3 delay=1ms lo=1ms hi=1ms err="connection refused"
	// level=ERROR msg="gave up" kind=call_finished attempt=3 max=3 reason=attempts_exhausted err="connection refused"
}

// A policy has only one OnEvent, but it can call any number of functions. The counters can be
// published by expvar.Publish("retry.payments", &counters).
func ExampleCounters() {
	var counters retrylog.Counters
	budget := &retry.Budget{Size: 10, Ratio: 0.1}
	counters.WatchBudget("payments", budget)

	log := retrylog.Slog(slog.New(slog.DiscardHandler))
	policy := retry.Policy{MaxAttempts: 3, Budget: budget, OnEvent: func(ctx context.Context, e retry.Event) {
		log(ctx, e)
		counters.OnEvent(ctx, e)
	}}
	_ = retry.Do(context.Background(), policy, func(context.Context) error { return nil })
	_ = retry.Do(context.Background(), policy, func(context.Context) error { return errors.New("connection refused") })

	s := counters.Snapshot()
	fmt.Println("calls:", s.Calls, "with retries:", s.Retried, "retries:", s.Retries, "gave up:", s.Stops[retry.ReasonExhausted], "left:", s.Budgets["payments"])
	// Output:
	// calls: 2 with retries: 1 retries: 2 gave up: 1 left: 8
}

// A log is written while the calls are made. Later it is read, replayed and checked.
func ExampleWriter() {
	var file bytes.Buffer
	log := retrylog.NewWriter(&file)
	policy := retry.Policy{MaxAttempts: 3, OnEvent: log.OnEvent}

	ctx := retrylog.WithKey(context.Background(), "17")
	err := retry.Do(ctx, policy, func(context.Context) error { return errors.New("connection refused") })
	fmt.Println(err)
	if err := log.Err(); err != nil {
		fmt.Println("the log ends early:", err)
	}

	records, err := retrylog.Read(&file)
	if err != nil {
		fmt.Println(err)
	}
	calls, err := retrylog.Replay(records)
	if err != nil {
		fmt.Println(err)
	}
	for _, call := range calls {
		fmt.Println(call.Key, len(call.Attempts), call.Reason, call.Check(policy))
	}
	// Output:
	// retry: attempts exhausted after 3 attempts: connection refused
	// 17 3 attempts_exhausted <nil>
}

func ExampleReplay() {
	records, err := retrylog.Read(strings.NewReader(crashed))
	if errors.Is(err, retrylog.ErrCutOff) {
		fmt.Println(err) // the complete lines have been read
	}
	calls, err := retrylog.Replay(records)
	if err != nil {
		fmt.Println(err)
	}
	for _, a := range calls[0].Attempts {
		fmt.Println(a.Attempt, a.Finished, a.Err, a.Delay)
	}
	// Output:
	// retrylog: line 5: the line is cut off
	// 1 true connection refused 200ms
	// 2 false <nil> 0s
}

func ExampleCall_Check() {
	records, _ := retrylog.Read(strings.NewReader(crashed))
	calls, _ := retrylog.Replay(records)
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: 200 * time.Millisecond}}
	fmt.Println(calls[0].Check(policy))
	policy.Backoff = retry.Fixed(time.Second)
	fmt.Println(calls[0].Check(policy))
	// Output:
	// <nil>
	// retrylog: line 3: attempt 1 is retried in 200ms, at 10:00:00.230Z (by the curve), and under the policy the delay is 1s
}

// A tool that reads a long log keeps only the calls that have not ended. It goes on after a line
// that is cut off.
func ExampleReader() {
	open := map[string]*retrylog.Call{}
	in := retrylog.NewReader(strings.NewReader("listening on :8080\n" + crashed + `
{"key":"17","kind":"attempt_started","time":"2026-11-20T10:01:00Z","attempt":3,"max":3,"elapsed":"1m0s"}
{"key":"17","kind":"attempt_finished","time":"2026-11-20T10:01:01Z","attempt":3,"max":3,"took":"1s","elapsed":"1m1s"}
{"key":"17","kind":"call_finished","time":"2026-11-20T10:01:01Z","attempt":3,"max":3,"elapsed":"1m1s","reason":"success"}
`))
	line, err := in.Next()
	for ; err == nil; line, err = in.Next() {
		switch {
		case line.Err != nil:
			fmt.Printf("line %d: %v\n", line.Number, line.Err)
		case len(line.Records) == 0:
			fmt.Printf("line %d is of another program: %s\n", line.Number, line.Text)
		}
		for _, r := range line.Records {
			if open[r.Key] == nil {
				open[r.Key] = &retrylog.Call{Key: r.Key}
			}
			call := open[r.Key]
			if call.Add(r); call.Reason != "" {
				fmt.Println("call", call.Key, "made", len(call.Attempts), "attempts:", call.Reason)
				delete(open, r.Key)
			}
		}
	}
	fmt.Println(err, len(open))
	// Output:
	// line 1 is of another program: listening on :8080
	// line 6: the line is cut off
	// call 17 made 3 attempts: success
	// EOF 0
}

func ExampleExplain() {
	records, _ := retrylog.Read(strings.NewReader(crashed))
	fmt.Print(retrylog.Explain(records))
	// Output:
	// 2026-11-20 10:00:00.000Z +0s 17: attempt 1 of 3 started
	// 2026-11-20 10:00:00.030Z +30ms 17: attempt 1 failed after 30ms: connection refused
	// 2026-11-20 10:00:00.030Z +30ms 17: attempt 1 is retried in 200ms, at 10:00:00.230Z (by the curve)
	// 2026-11-20 10:00:00.230Z +230ms 17: attempt 2 of 3 started
}
