package retrylog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// The log of a job that failed once, cut off by a crash.
const crashed = `{"key":"17","kind":"attempt_started","time":"2026-11-20T10:00:00Z","attempt":1,"max":3}
{"key":"17","kind":"attempt_finished","time":"2026-11-20T10:00:00.03Z","attempt":1,"max":3,"err":"connection refused","took":"30ms","elapsed":"30ms"}
{"key":"17","kind":"retry_scheduled","time":"2026-11-20T10:00:00.03Z","attempt":1,"max":3,"elapsed":"30ms","delay":"200ms","due":"2026-11-20T10:00:00.23Z"}
{"key":"17","kind":"attempt_started","time":"2026-11-20T10:00:00.23Z","attempt":2,"max":3,"elapsed":"230ms"}
{"key":"17","kind":"attempt_fin`

// A log is written as the calls happen, and read, replayed and checked later.
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
		fmt.Println(err) // what is whole was read
	}
	calls, err := retrylog.Replay(records)
	if err != nil {
		fmt.Println(err)
	}
	for _, a := range calls[0].Attempts {
		fmt.Println(a.Number, a.Finished, a.Err, a.Delay)
	}
	// Output:
	// retrylog: the log is cut off within line 5
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
	// retrylog: line 3: attempt 1 is retried in 200ms, at 10:00:00.230 (by the curve), and the policy says in 1s
}

func ExampleExplain() {
	records, _ := retrylog.Read(strings.NewReader(crashed))
	fmt.Print(retrylog.Explain(records))
	// Output:
	// 2026-11-20 10:00:00.000 +0s 17: attempt 1 of 3 started
	// 2026-11-20 10:00:00.030 +30ms 17: attempt 1 failed after 30ms: connection refused
	// 2026-11-20 10:00:00.030 +30ms 17: attempt 1 is retried in 200ms, at 10:00:00.230 (by the curve)
	// 2026-11-20 10:00:00.230 +230ms 17: attempt 2 of 3 started
}
