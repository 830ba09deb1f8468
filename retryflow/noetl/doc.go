// Package noetl parses YAML documents of NoETL, a workflow engine, for use with package
// retryflow. It reads the tasks and their rules from a whole playbook, from one step, or from one
// task.
//
//	tool:
//	  - fetch_page:
//	      kind: http
//	      url: "{{ workload.api_url }}/pages"
//	      eval:
//	        - expr: "{{ outcome.status == 'error' and outcome.http.status in [429, 503] }}"
//	          do: retry
//	          attempts: 10
//	          backoff: exponential
//	          delay: "{{ outcome.http.headers['retry-after'] | default(2) }}"
//	        - expr: "{{ outcome.status == 'success' and outcome.result.has_next }}"
//	          do: jump
//	          to: fetch_page
//	          set_iter: {page: "{{ iter.page + 1 }}"}
//	        - else:
//	            do: continue
//
// [ParseTasks] parses one step, as in this example, or only the list of its tasks. [ParsePlaybook]
// parses a document with a workflow, and [ParseRules] parses the rules of one task. The package
// runs nothing. Your program turns each [Task] into a [retryflow.Task] with a function of its own.
// Task.Config contains every key of the task that is not about rules, and tells the function what
// to do.
//
// The README lists the keys, the expressions, the differences from NoETL's engine, and the limits
// on untrusted documents: https://github.com/goretry/retry/blob/main/retryflow/noetl/README.md
//
// If the condition of a rule cannot be evaluated, the pipeline ends, and the error says why. There
// is one exception: if the condition uses a name or a key that does not exist, the pipeline goes
// on. Then the rule does not match, and the field Faults of the [retryflow.Event] contains the
// error. If a delay or a number of attempts cannot be evaluated, the task fails.
//
// A document cannot run code, read a file, call a Go method or reach an unexported field. It can
// make a pipeline wait, repeat tasks, and store values under names in the State.
// [retryflow.Pipeline.MaxJumps] limits the jumps of a run, and the context of Run limits its time.
package noetl
