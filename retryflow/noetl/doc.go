// Package noetl parses NoETL task rules from YAML for use with package
// retryflow: whole playbooks, one step, or the rules of one task.
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
// [ParseTasks] parses such a step, or only its list of tasks. [ParsePlaybook]
// parses a document with a workflow, and [ParseRules] parses the rules of one
// task. The package runs nothing: your program makes a [retryflow.Task] out of
// each [Task], with a function that does what its Config says. Every key that
// is not about rules is in a Config, as it was written.
//
// # Keys
//
// A task has its rules under eval. They are tried in order, and the first one
// that matches decides.
//
//	key       in           default  value
//	expr      every rule            an expression; the rule matches if it is true
//	else      the last one          matches always: a mapping with do
//	do        every rule            continue, retry, jump, break or fail
//	attempts  retry        3        attempts of the task in all: a number, or an expression
//	backoff   retry        fixed    fixed or none (delay), linear (delay*n) or exponential (delay*2^(n-1))
//	delay     retry        1        seconds: a number, or an expression
//	delay     jump         0        the same
//	to        jump                  the label of a task; previous, prev, _previous or @previous for the one before
//	set_iter  every rule            names and values to set in the mapping iter of the state
//	set_vars  every rule            the same in vars; set_ctx and set_shared likewise
//	set       every rule            the same, where a name includes its mapping: iter.page; a bare name is in ctx
//	set_prev  every rule            the value that later expressions know as _prev
//
// The value of expr is a text that is exactly one {{ … }}, or the expression
// alone. In attempts and delay an expression needs its braces: a text without
// them is a number. In the values of set_iter and the like, texts may contain
// any number of {{ … }}: a text that is a single {{ … }} becomes the value of
// its expression, and any other stays a text.
//
// The old form has retry in place of eval. Its value is a number of attempts,
// an expression that computes it, true for the defaults, false for no rules, or
// a mapping. The delays double, beginning with one second:
//
//	retry:
//	  max_attempts: 5
//	  initial_delay: 0.5
//	  backoff_multiplier: 2
//	  max_delay: 30
//	  jitter: true
//	  retry_when: "{{ status_code >= 500 }}"
//	  stop_when: "{{ status_code == 501 }}"
//
// Its max_attempts and initial_delay may be expressions with braces, and its
// expressions know more names:
//
//	status_code      outcome.http.status
//	attempt          the number of the attempt
//	max_attempts     the value of max_attempts, 3 if it is not set
//	error            the text of Err, or none after a success
//	success          true after a success
//	result, data     Result
//
// If stop_when is true, the task is not retried. Otherwise it is retried after
// an error if retry_when is true or not set. After a success retry_when is not
// evaluated. A stop_when without a retry_when also repeats the task after a
// success, until it is true. With jitter: true each delay is drawn from half of
// it to one and a half times it, and does not exceed max_delay.
//
// The newest form is spec.policy.rules. It has when and then in place of expr
// and the keys that follow it, and the status ok in place of success. A rule
// without a condition always matches, and when may also be true or false.
//
// Rules in a place that is not read are an error, and so is a retry with retry_on,
// retry_on_status or backoff_seconds, which none of NoETL's tools reads.
//
// Every other key of a rule is an error, and so are a rule after the else, a
// label that no task has, and an expression that cannot be parsed. An error
// lists the first 20 faults, each with its line and its path, such as
//
//	noetl: orders.yaml:31: workflow[2].tool[0].fetch_page.eval[1]: delay is true: write seconds, such as 1.5, or an expression: "{{ workload.delay }}"
//
// Anchors, aliases and << work. A document has at most 1 MiB, a key at most 1 KiB, and
// aliases stand for at most 50,000 values, where 64 bytes of a text are one more.
//
// # Expressions
//
// Expressions are Jinja's, and give the same results as Jinja 3.1 in Python
// with StrictUndefined. They know the names of the pipeline's State, so that
// iter.page is state["iter"]["page"], and these:
//
//	outcome.status             success or error
//	outcome.result             Result
//	outcome.error.message      the text of Err, or what Data says as error
//	outcome.meta.attempt       1 for the first attempt
//	outcome.meta.duration_ms   how long it took
//	outcome.http, outcome.pg   and whatever else Data has, except status, result and these of meta
//	_task, _attempt            the label of the task, and the number of the attempt
//
// The names in outcome.http.headers are in lower case. The value of retry-after is
// a number of seconds, also if the server sent a date. It is missing if
// [retryhttp.AdviceOf] ignores what the server sent, so that default(…) applies. The function rand()
// returns a number from 0 up to, but not including, 1. It draws from the Source
// that was passed to the parsing function.
//
// They have Jinja's literals, attributes, subscripts, operators and if else. There
// are no statements ({% … %}), no comments, no slices and no function but rand. The
// filters are:
//
//	abs count d default first float int join last length list lower max min replace
//	round sort string tojson trim upper
//
// The tests:
//
//	boolean defined divisibleby even false float integer mapping none number odd
//	sequence string true undefined
//
// The methods, get of mappings and the others of texts:
//
//	endswith get isdigit join lower lstrip replace rstrip split startswith strip upper
//
// Anything else is an error of the document, which names it.
//
// A rule whose expression cannot be evaluated does not match; the error is in
// Faults of the [retryflow.Event]. If a delay or a number of attempts cannot be
// evaluated, the task fails. These cannot be evaluated:
//
//   - a missing name or key, unless "is defined" checks for it or "| default(…)" replaces it;
//     as in Jinja, default only helps if the last key of a path is the missing one
//   - operators on values whose types do not fit together, such as 'a' < 1
//   - anything that needs the order of a mapping, such as its text, first or list, because
//     decoding JSON in Go loses it; tojson sorts the keys, and length, in and get need no
//     order
//   - a power that has no exact value in float64
//
// A float64 from JSON without a fraction is treated as an integer, because 2.0 and
// 2 are the same there. Beyond 2^53 it is an error, because digits may have
// been lost. Decode with [encoding/json.Decoder.UseNumber] to keep every number
// as it was written.
//
// A delay can be as long as a server's header says. Three things bound it: the
// context of Run, a MaxDelay that you set in the Policy of the rule, and min in
// the expression.
//
// # Differences from NoETL
//
// These are on purpose. NoETL's engine is that of July 2026 for spec.policy.rules, and
// that of February 2026 for eval. Its document is Retry Handling (Canonical), which is
// silent where there is a dash. What is in the last column works in both.
//
//	case               NoETL's engine                    its document    here               write
//	retry, no backoff  waits 0s                          waits delay     waits delay or 1s  a backoff
//	jump, delay        does not wait                     waits           waits              no delay
//	delay, text        waits 1s for an expression        computes it     computes it        a number
//	attempts, jump     go on counting after a jump       count from 1    count from 1       a count in iter
//	missing            a missing name is '' or false     -               rule has no match  | default(…)
//	condition          holds as text true, 1 or yes      is true         is true in Jinja   a comparison
//	set, fails         sets '' or the expression's text  -               the task fails     | default(…)
//	set, text          sets '2', and a list for '[1]'    -               sets 2, and '[1]'  | int where it is read
//	set, list          sets its expressions as texts     -               computes them      each in a name of its own
//	set, scope         vars.a is in ctx, as vars.a       -               a in vars          ctx.a or iter.a
//	else, do           skips else: {do: …}               is the else     is the else        else: {then: {do: …}}
//	on_unmatched       is not read                       -               decides            an else
//	labels             task_0; s_task for a step s;      -               task_1; s;         a name for each task
//	                   not next, set, vars, emit, collect                any
//	no progress        fails a break in paginations      -               breaks             other names
//	retry (mapping)    jitter, max_delay: 60; retry_when exponential,    as its document    rules
//	                   also after a success, stop_when   from 1s
//	                   alone not; not read in 2026
//	raised             a wrong type ends the run         -               is used or refused the types above
//	forms              eval, set_vars, or a label over   -               are read           spec.policy, and
//	                   its task end the run (July)                                          name beside kind
//
// # Documents from others
//
// A document cannot run code, read a file, call a Go method or reach an
// unexported field. Each evaluation of an expression is bounded: 200,000 steps,
// 4 MiB of texts and lists, values 100 deep, and integers of 4096 bits. A step
// is an operation, a member that is read or compared, or 256 bytes of a text
// that is read. An expression has at most 8 KiB. A document can make a pipeline
// wait, repeat its tasks, and set names in its State;
// [retryflow.Pipeline.MaxJumps] and the context of Run bound that.
package noetl
