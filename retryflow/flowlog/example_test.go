package flowlog_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retryflow/flowlog"
)

// A process crashed in the wait before a jump. The next one continues there,
// and does not wait, because the wait has passed.
func ExamplePipelineEvents() {
	pipeline := retryflow.Pipeline{Tasks: []retryflow.Task{
		{Label: "submit", Run: func(context.Context, retryflow.State) retryflow.Outcome {
			fmt.Println("submit")
			return retryflow.Outcome{}
		}},
		{Label: "poll", Run: func(context.Context, retryflow.State) retryflow.Outcome {
			fmt.Println("poll")
			return retryflow.Outcome{Result: "ready"}
		}, Rules: retryflow.Rules{{
			When: func(o retryflow.Outcome) (bool, error) { return o.Result != "ready", nil },
			Do:   retryflow.Jump, To: "poll",
			Delay: func(retryflow.Outcome) (time.Duration, error) { return time.Minute, nil },
		}}},
	}}
	records, err := flowlog.Read(strings.NewReader(`
{"key":"17","kind":"attempt_started","time":"2020-11-20T10:00:00Z","attempt":1,"max":-1,"task":"submit","rule":-1}
{"key":"17","kind":"attempt_finished","time":"2020-11-20T10:00:00Z","attempt":1,"max":-1,"task":"submit","rule":-1,"directive":"continue"}
{"key":"17","kind":"call_finished","time":"2020-11-20T10:00:00Z","attempt":1,"max":-1,"reason":"success","task":"submit","rule":-1,"directive":"continue"}
{"key":"17","kind":"attempt_started","time":"2020-11-20T10:00:00Z","attempt":1,"max":-1,"task":"poll","rule":-1}
{"key":"17","kind":"attempt_finished","time":"2020-11-20T10:00:00Z","attempt":1,"max":-1,"task":"poll","rule":0,"directive":"jump","to":"poll","computed":"1m0s"}
{"key":"17","kind":"retry_scheduled","time":"2020-11-20T10:00:00Z","attempt":1,"max":-1,"delay":"1m0s","due":"2020-11-20T10:01:00Z","task":"poll","rule":0,"directive":"jump","to":"poll","computed":"1m0s"}
`))
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(pipeline.Resume(context.Background(), nil, flowlog.PipelineEvents(records, "17")))
	// Output:
	// poll
	// <nil>
}
