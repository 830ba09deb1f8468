package retryjob

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// A DeadLetter says why a job does not run again. Every adapter of this library keeps the
// DeadLetter with the job, in the same JSON form:
//
//	{"key":"mail-7","reason":"attempts_exhausted","attempts":3,
//	 "err":"retry: attempts exhausted ...",
//	 "began":"2026-11-22T20:15:00Z","ended":"2026-11-22T20:21:30.5Z"}
//
// encoding/json writes and reads this form. Keys that this version does not know are kept and
// written again. Reading fails if the reason is missing.
type DeadLetter struct {
	Key      string       // the Key of the Job
	Reason   retry.Reason // why the job does not run again; a newer version may have other reasons
	Attempts int          // the count of attempts that were made
	Err      string       // the text of the [*retry.Error], with the text of the last error
	Began    time.Time    // when the first attempt began, from the Job; zero: not known
	Ended    time.Time    // when the job became a dead letter; zero: not known

	unknown map[string]json.RawMessage
}

// DeadLetter returns the dead letter of a job that does not run again. Its texts are UTF-8
// without NUL, so that every database can store them. Err is the result of [TextOf].
func (o Outcome) DeadLetter(job Job) DeadLetter {
	return DeadLetter{
		Key: storable(job.Key), Reason: o.Reason, Attempts: o.Attempts, Err: TextOf(o.Err),
		Began: writable(job.Began), Ended: writable(time.Now()),
	}
}

// longestText is how many bytes of an error a queue keeps. JSON may need six bytes for one byte,
// and a message of NATS has room for 64 KiB of headers.
const longestText = 8 << 10

// TextOf returns the text of an error in a form that every queue can store: UTF-8 without NUL,
// cut after 8 KiB. The text of nil is empty. All adapters store the errors of jobs with TextOf.
func TextOf(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	text = storable(text[:min(len(text), longestText)]) // U+FFFD may make the text longer
	return strings.ToValidUTF8(text[:min(len(text), longestText)], "")
}

func storable(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
}

// writable returns t in UTC, or the zero time if JSON cannot express its year. So a job ends
// even if its producer wrote an impossible time.
func writable(t time.Time) time.Time {
	t = t.UTC().Round(0)
	if year := t.Year(); year < 1 || year > 9999 {
		return time.Time{}
	}
	return t
}

// A field is a key of the JSON form and a pointer to its value.
type field struct {
	key   string
	value any
}

func (d *DeadLetter) fields() []field {
	return []field{
		{"key", &d.Key}, {"reason", &d.Reason}, {"attempts", &d.Attempts},
		{"err", &d.Err}, {"began", &d.Began}, {"ended", &d.Ended},
	}
}

// MarshalJSON writes the JSON form. It leaves out zero times.
func (d DeadLetter) MarshalJSON() ([]byte, error) {
	all := map[string]any{}
	for key, value := range d.unknown {
		all[key] = value
	}
	for _, f := range d.fields() {
		if at, is := f.value.(*time.Time); !is || !at.IsZero() {
			all[f.key] = f.value
		}
	}
	return json.Marshal(all)
}

// UnmarshalJSON reads the JSON form. After an error, d is unchanged.
func (d *DeadLetter) UnmarshalJSON(data []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("retryjob: dead letter: %w", err)
	}
	var read DeadLetter
	for _, f := range read.fields() {
		value, is := all[f.key]
		if !is {
			continue
		}
		if err := json.Unmarshal(value, f.value); err != nil {
			return fmt.Errorf("retryjob: dead letter: key %q: %w", f.key, err)
		}
		delete(all, f.key)
	}
	if read.Reason == "" {
		return errors.New(`retryjob: not a dead letter: the key "reason" is missing or empty`)
	}
	if len(all) > 0 {
		read.unknown = all
	}
	*d = read
	return nil
}
