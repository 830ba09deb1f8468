package retryjob

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// A DeadLetter says why a job does not run again. Every adapter of this library stores the
// DeadLetter with the job, as JSON of this form:
//
//	{"key":"mail-7","reason":"attempts_exhausted","attempts":3,
//	 "err":"retry: attempts exhausted ...",
//	 "began":"2026-11-22T20:15:00Z","ended":"2026-11-22T20:21:30.5Z"}
//
// encoding/json reads and writes this form. A key that this version does not know is kept, and is
// written out again. Reading returns an error if the key "reason" is missing or empty.
type DeadLetter struct {
	Key      string       // the Key of the Job
	Reason   retry.Reason // why the job does not run again; newer versions may write other reasons
	Attempts int          // how many attempts were made
	Err      string       // the text of the [*retry.Error], which contains the text of the last error
	Began    time.Time    // when the first attempt began; the zero time if this is unknown
	Ended    time.Time    // when the job became a dead letter; the zero time if this is unknown

	unknown map[string]json.RawMessage
}

// DeadLetter returns the dead letter to store for `job` if this job does not run again. The Key and
// the Err of the dead letter are UTF-8 without NUL, so that every database can store them. Err has
// at most 8 KiB: see [TextOf].
func (o Outcome) DeadLetter(job Job) DeadLetter {
	return DeadLetter{
		Key: storable(job.Key), Reason: o.Reason, Attempts: o.Attempts, Err: TextOf(o.Err),
		Began: writable(job.Began), Ended: writable(time.Now()),
	}
}

// longestText is the maximum length of a stored error in bytes. JSON may need six bytes for one
// byte, so such an error may need 48 KiB. NATS limits the headers of a message to 64 KiB.
const longestText = 8 << 10

// TextOf returns the text of err in a form that every queue can store: UTF-8 without NUL, cut
// after 8 KiB. If err is nil, the text is empty. All adapters use TextOf for the errors that
// they store.
func TextOf(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	text = storable(text[:min(len(text), longestText)])
	// The text is cut a second time, because the function `storable` may have replaced single bytes
	// with U+FFFD, which needs three bytes.
	return strings.ToValidUTF8(text[:min(len(text), longestText)], "")
}

func storable(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
}

// writable returns t in UTC, or the zero time if JSON cannot express the year of t. So a job
// can become a dead letter even if its producer wrote an impossible time.
func writable(t time.Time) time.Time {
	t = t.UTC().Round(0)
	if year := t.Year(); year < 1 || year > 9999 {
		return time.Time{}
	}
	return t
}

// A field is one key of the JSON form and a pointer to the value of this key.
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

// MarshalJSON returns the JSON form of d. It leaves out times that are zero.
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

// UnmarshalJSON reads the JSON form into d. If it returns an error, d is unchanged.
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
