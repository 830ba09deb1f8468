package retrylog

import "github.com/goretry/retry/internal/eventlog"

// Explain returns readable text: a line for each event that says what happened,
// when and why, in UTC. It leaves out an error that is already in the line before. Line
// breaks become "; ". Other control characters, and those that change the
// direction of text, are escaped: "\x1b", "\u202e". A kind or a reason of a newer
// version is shown by its name. For the events of a pipeline it says what the rules
// decided.
func Explain(records []Record) string { return eventlog.Explain(records) }
