// Package noetl reads the rules of NoETL's tasks, as its users write them in
// YAML, for the pipelines of package retryflow.
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
// [ParseTasks] reads such a step, or the list alone; [ParseRules] reads the
// rules of one task. What a task does is up to you: the keys that are not about
// rules are in its Config, as they were written.
//
// # Keys
//
//	key       in           default  value
//	expr      every rule            exactly one {{ … }}; left out where there is else
//	else      the last one          what every other outcome gets: a mapping with do
//	do        every rule            continue, retry, jump, break or fail
//	attempts  retry        3        executions in all, over all rules of the task
//	backoff   retry        fixed    fixed (delay), linear (delay*n) or exponential (delay*2^(n-1))
//	delay     retry        1        seconds: a number, as text too, or exactly one {{ … }}
//	delay     jump         0        likewise
//	to        jump                  the label of a task
//	set_iter  not fail              values for names under iter, with any number of {{ … }} in their texts
//
// A task has its rules under eval. The old block is read too, and mapped as its
// migration says, to exponential delays from one second:
//
//	retry:
//	  max_attempts: 5
//	  retry_when: "{{ status_code >= 500 }}"
//
// What is not in the table is an error that names the line, and so is a rule
// after the else, a label that no task has, and an expression that cannot be
// read. Anchors, aliases and << work.
//
// # Expressions
//
// They are Jinja's. They know the names of the pipeline's State, so that
// iter.page is state["iter"]["page"], and outcome:
//
//	outcome.status             success or error
//	outcome.result             Result
//	outcome.error.message      the text of Err, or what Data says as error
//	outcome.meta.attempt       1 for the first execution
//	outcome.meta.duration_ms   how long it took
//	outcome.http, outcome.pg   and whatever else Data has, but for status, result and these of meta
//
// The names in outcome.http.headers are in lower case, whatever theirs.
// Conditions hold as in Jinja: what is not false, none, 0, nor empty. rand() is
// a number from 0 up to 1, drawn from the Source that was given.
//
// An expression that cannot be evaluated does not match, and is reported: see
// [retryflow.Event]. A delay that is no number of seconds, or is negative,
// fails the task and is named. One may be as long as a header says: only the
// context of Run bounds it, and for a retry the MaxDelay that you set in the
// Policy of the rule, or min in the expression.
//
// These cannot be evaluated:
//
//   - an order of two things that are not both numbers, or both texts, by an operator or a test
//   - arithmetic with what is no number, but for the sum of two texts
//   - a division by zero, and "is divisibleby 0"
//   - a search, by in or not in, of what is no text in a text, or of anything in a number, true, false or none
//   - a name that is not there: ask "is defined", or add "| default(…)"
//   - a list with something in it that cannot be evaluated, and what map, select, reject, selectattr or rejectattr make of one
//
// Filters and other tests are those of the template engine, which are more
// lenient. A filter or test that there is not is an error of the document, as
// far as its name is written out.
//
// Statements are refused, no file is ever read, and a panic of the template
// engine is an expression that cannot be evaluated. It may take any time and
// memory though, and call methods of what is in Result, Data and State: a
// document is to be trusted like code.
//
// Among what differs from Jinja: "a if b else c" may stand alone in {{ … }}, but
// not in parentheses, and a chain like 1 < x < 3 is an error: write 1 < x and
// x < 3.
package noetl
