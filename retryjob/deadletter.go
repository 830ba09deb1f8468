package retryjob

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// A DeadLetter says why a job does not run again. Every adapter of this library keeps
// it with the job, in one JSON form:
//
//	{"key":"mail-7","reason":"attempts_exhausted","attempts":3,"err":"retry: attempts exhausted ...",
//	 "began":"2026-11-22T20:15:00Z","ended":"2026-11-22T20:21:30.5Z"}
//
// encoding/json writes and reads this form. A key that this version does not know is
// kept, and written again. Reading fails if the reason is missing.
type DeadLetter struct {
	Key      string       // of the Job
	Reason   retry.Reason // why the job does not run again, perhaps by a newer version
	Attempts int          // how many attempts were made
	Err      string       // the text of the [*retry.Error], which ends in the last failure
	Began    time.Time    // when the first attempt began, as the Job says; zero: not known
	Ended    time.Time    // when the job became a dead letter; zero: not known

	unknown map[string]json.RawMessage
}

// DeadLetter returns the dead letter of a job that does not run again. Its texts are
// UTF-8 without NUL, so that every database can store them, and Err is that of [TextOf].
func (o Outcome) DeadLetter(job Job) DeadLetter {
	return DeadLetter{Key: storable(job.Key), Reason: o.Reason, Attempts: o.Attempts, Err: TextOf(o.Err),
		Began: writable(job.Began), Ended: writable(time.Now())}
}

// longestText is how many bytes of an error a queue keeps. JSON may need six bytes for
// one, and a message of NATS has room for 64 KiB of headers.
const longestText = 8 << 10

// TextOf returns the text of an error as every queue can store it: UTF-8 without NUL, and at
// most its first 8 KiB. The text of nil is empty. All adapters store the errors of jobs with
// it.
func TextOf(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	text = storable(text[:min(len(text), longestText)]) // which may be longer again
	return strings.ToValidUTF8(text[:min(len(text), longestText)], "")
}

func storable(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
}

// writable returns t in UTC, or the zero time if JSON has no form for its year: a job
// whose producer wrote a wild time must still end.
func writable(t time.Time) time.Time {
	t = t.UTC().Round(0)
	if year := t.Year(); year < 1 || year > 9999 {
		return time.Time{}
	}
	return t
}

// A field is a key of the JSON form, and where its value is.
type field struct {
	key   string
	value any
}

func (d *DeadLetter) fields() []field {
	return []field{{"key", &d.Key}, {"reason", &d.Reason}, {"attempts", &d.Attempts}, {"err", &d.Err}, {"began", &d.Began}, {"ended", &d.Ended}}
}

// MarshalJSON implements json.Marshaler. It leaves out times that are zero.
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

// UnmarshalJSON implements json.Unmarshaler.
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
