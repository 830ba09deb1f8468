package retrylog

import "github.com/goretry/retry/internal/eventlog"

// Explain returns readable text: a line for each event that says what happened,
// when and why, in UTC. It leaves out an error that is already in the line before. Line
// breaks become "; ". Other control characters, and those that change the
// direction of text, are escaped: "\x1b", "\u202e". A kind or a reason of a newer
// version is shown by its name.
func Explain(records []Record) string {
	return eventlog.Explain(len(records), func(i int) eventlog.Entry { return records[i].entry() })
}

// An Explainer explains a log that is too long for the memory, or grows: it returns
// what [Explain] does, a line at a time. The zero Explainer is ready for the first
// record. It must not be used by two goroutines at once.
//
//	var explainer retrylog.Explainer
//	for record, err := range retrylog.Scan(file) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(explainer.Line(record))
//	}
type Explainer struct{ entries eventlog.Explainer }

// Line returns the line of r with its end. Its error is left out if it is in the line
// before.
func (x *Explainer) Line(r Record) string { return x.entries.Line(r.entry()) }

// String returns the line of r in [Explain], with its error.
func (r Record) String() string { return eventlog.Text(r.entry()) }
