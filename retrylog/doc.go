// Package retrylog makes the events of package retry readable: to log/slog as
// they happen ([Slog]), to memory or to lines of JSON ([Recorder], [Writer]),
// and from there back to the calls that they tell of ([Replay]), to a check of
// every decision against the policy ([Call.Check]), and to a text that says
// when and why ([Explain]).
//
//	policy.OnEvent = retrylog.Slog(logger)
//
// All of them may be shared by any number of policies and calls at once. Calls
// that write to one log are told apart by a key, the id of a job, say, that
// the context of the call carries:
//
//	err := retry.Do(retrylog.WithKey(ctx, job.ID), policy, job.Run)
//
// # Form
//
// A line is one event, with the key first where there is one:
//
//	{"key":"17","kind":"attempt_started","time":"2026-11-20T10:00:00Z","attempt":1,"max":4}
//	{"key":"17","kind":"attempt_finished","time":"2026-11-20T10:00:00.03Z","attempt":1,"max":4,"err":"refused","took":"30ms","elapsed":"30ms"}
//	{"key":"17","kind":"retry_scheduled","time":"2026-11-20T10:00:00.03Z","attempt":1,"max":4,"elapsed":"30ms","delay":"212ms","due":"2026-11-20T10:00:00.242Z","seed":"42"}
//	{"key":"17","kind":"stopped","time":"2026-11-20T10:00:00.1Z","attempt":1,"max":4,"elapsed":"100ms","reason":"canceled"}
package retrylog
