// Package noetl parses the task rules of NoETL from YAML, for use with package retryflow. It
// reads whole playbooks, one step, or the rules of one task.
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
// [ParseTasks] parses such a step, or only its list of tasks. [ParsePlaybook] parses a
// document with a workflow, and [ParseRules] parses the rules of one task. The package runs
// nothing: your program makes a [retryflow.Task] out of each [Task], with a function that
// does what its Config describes. A Config holds every key that is not about rules.
//
// The README lists the keys, the expressions, the differences from NoETL's engine, and the
// bounds on a document that you do not trust:
// https://github.com/goretry/retry/blob/main/retryflow/noetl/README.md
//
// If the condition of a rule cannot be evaluated, the pipeline ends, and the error says why. A
// missing name is different: the rule does not match, and the error is in Faults of the
// [retryflow.Event]. If a delay or a number of attempts cannot be evaluated, the task fails.
//
// A document cannot run code, read a file, call a Go method or reach an unexported field. It
// can make a pipeline wait, repeat its tasks, and set names in its State.
// [retryflow.Pipeline.MaxJumps] and the context of Run bound how often and how long.
package noetl
