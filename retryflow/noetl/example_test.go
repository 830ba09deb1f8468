package noetl_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retryflow/noetl"
)

// The rules of the step are in YAML, and its tasks are Go functions.
func ExampleParseTasks() {
	tasks, err := noetl.ParseTasks([]byte(`
tool:
  - fetch:
      kind: http
      url: https://shop.test/orders
      eval:
        - expr: "{{ outcome.http.status in [429, 503] }}"
          do: retry
          attempts: 5
          backoff: exponential
          delay: 0.01
        - expr: "{{ outcome.status == 'error' }}"
          do: fail
        - expr: "{{ outcome.result.next is not none }}"
          do: jump
          to: fetch
          set_iter: {page: "{{ outcome.result.next }}"}
        - else: {do: continue}
`), nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	status := []int{200, 503, 200}
	fetch := func(_ context.Context, s retryflow.State) retryflow.Outcome {
		page := s["iter"].(map[string]any)["page"].(int)
		o := retryflow.Outcome{Data: map[string]any{"http": map[string]any{"status": status[0]}}}
		fmt.Println("page", page, "status", status[0])
		if status[0] != 200 {
			o.Err = errors.New("the shop is busy")
		}
		next := any(page + 1)
		if page == 2 {
			next = nil
		}
		o.Result = map[string]any{"next": next}
		status = status[1:]
		return o
	}
	pipeline := retryflow.Pipeline{Tasks: []retryflow.Task{{Label: tasks[0].Label, Run: fetch, Rules: tasks[0].Rules}}}
	fmt.Println(pipeline.Run(context.Background(), retryflow.State{"iter": map[string]any{"page": 1}}))
	// Output:
	// page 1 status 200
	// page 2 status 503
	// page 2 status 200
	// <nil>
}
