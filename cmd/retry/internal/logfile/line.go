package logfile

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventlog"
)

// parts are the lines of which a container's runtime has written only a part so far, by
// stream.
type parts map[string][]byte

// cri is how containerd and CRI-O begin a line. P marks a part of one.
var cri = regexp.MustCompile(`^(\S+) (stdout|stderr) ([PF])\S* `)

// unwrap returns the line that a container has written, and when. It is not whole if
// more of it follows.
func (p *parts) unwrap(line []byte) (text []byte, at time.Time, whole bool) {
	var stream string
	switch {
	case bytes.HasPrefix(line, []byte(`{"log":`)):
		var entry struct {
			Log, Stream string
			Time        time.Time
		}
		if json.Unmarshal(line, &entry) != nil {
			return line, at, true
		}
		text, stream, at, whole = []byte(entry.Log), entry.Stream, entry.Time, entry.Log == "" || entry.Log[len(entry.Log)-1] == '\n'
	case line[0] >= '0' && line[0] <= '9' && cri.Match(line):
		found := cri.FindSubmatch(line)
		text, stream, whole = line[len(found[0]):], string(found[2]), found[3][0] == 'F'
		at, _ = time.Parse(time.RFC3339Nano, string(found[1]))
	default:
		return line, at, true
	}
	if before := (*p)[stream]; len(before) > 0 {
		text = append(before, text...)
	}
	if *p == nil {
		*p = parts{}
	}
	if delete(*p, stream); !whole && len(text) <= eventlog.MaxLine {
		(*p)[stream] = text
		return nil, at, false
	}
	return bytes.Trim(text, " \t\r\n"), at, true
}

// payload returns the JSON that a line has behind a prefix, or that has the keys and
// values of its text, and nil if there is neither.
func payload(line []byte) (value []byte, text bool, prefix []byte) {
	if bytes.HasPrefix(line, []byte("{")) { // Docker's line may hold an empty one
		return line, false, nil
	}
	if i := bytes.Index(line, []byte(`{"`)); i >= 0 {
		return line[i:], false, line[:i]
	}
	if bytes.Contains(line, []byte(" kind=")) || bytes.HasPrefix(line, []byte("kind=")) {
		return fromText(line), true, line
	}
	if bytes.IndexByte(line, 0) >= 0 { // after a power failure
		return line, false, nil
	}
	return nil, false, nil
}

// isEvent reports whether a JSON value that cannot be read has keys of events.
func isEvent(value []byte) bool {
	n := 0
	for _, key := range []string{`"kind"`, `"attempt"`, `"max"`} {
		if bytes.Contains(value, []byte(key)) {
			n++
		}
	}
	return n > 1
}

// known are the keys of events, as slog's TextHandler writes them.
var known = strings.Fields("time key kind attempt max resets elapsed took delay due lo hi retry_after seed class reason err cause")

// fromText returns a line of retrylog's Slog in text as JSON. Of a key that is there
// twice it takes the last, which is the event's. The JSON of a line that is cut off is
// cut off too.
func fromText(line []byte) []byte {
	values := map[string]string{}
	for key, text := range pairs(line) {
		if key == "level" { // a line begins, perhaps behind one that is cut off
			at := values["time"]
			clear(values)
			values["time"] = at
		}
		values[key] = text
	}
	for _, message := range eventlog.Messages { // slog's default handler writes it without a key
		if values["msg"] == "" && bytes.Contains(line, []byte(" "+message+" k")) {
			values["msg"] = message
		}
	}
	fields := map[string]any{"level": "", "msg": values["msg"]}
	for _, key := range known {
		text, ok := values[key]
		n, err := strconv.Atoi(text)
		switch {
		case !ok || key == "time" && text == "":
		case err == nil && (key == "attempt" || key == "max" || key == "resets"):
			fields[key] = n
		default:
			fields[key] = text
		}
	}
	value, _ := json.Marshal(fields)
	if isTorn(values) {
		return value[:len(value)-1]
	}
	return value
}

// isTorn reports whether the last key that such an event has is missing, or the value of
// that has no end.
func isTorn(values map[string]string) bool {
	last := map[string]string{"attempt_started": "elapsed", "attempt_finished": "took", "retry_scheduled": "err", "stopped": "reason"}[values["kind"]]
	if values["msg"] == eventlog.MessageFailed {
		last = "err"
	}
	text, ok := values[last]
	if _, err := time.ParseDuration(text); err != nil && (last == "elapsed" || last == "took") {
		return true
	}
	_, endless := values[""]
	return endless || !ok && last != ""
}

// pairs yields the keys and values of text, and skips what is none. The key of a value
// without a closing quotation mark is "".
func pairs(line []byte) func(yield func(key, value string) bool) {
	return func(yield func(key, value string) bool) {
		for len(line) > 0 {
			word := line
			if end := bytes.IndexByte(line, ' '); end >= 0 {
				word = line[:end]
			}
			key, value, ok := bytes.Cut(word, []byte{'='})
			name := strings.TrimPrefix(string(key), "\ufeff") // syslog may begin a message so
			text := string(value)
			if ok && len(value) > 0 && value[0] == '"' {
				quoted, err := strconv.QuotedPrefix(string(line[len(key)+1:]))
				if err != nil {
					yield("", "")
					return
				}
				text, _ = strconv.Unquote(quoted)
				word = line[:len(key)+1+len(quoted)]
			}
			if ok && !yield(name, text) {
				return
			}
			line = bytes.TrimLeft(line[len(word):], " ")
		}
	}
}

// complete gives an event of a line the time that a prefix has, if it has none, and
// nanoseconds to a time that text has rounded.
func complete(e *retry.Event, at time.Time, prefix []byte, text bool) {
	rounded := time.Millisecond // by slog's TextHandler
	if e.Time.IsZero() {
		rounded = time.Second
		if e.Time = at; at.IsZero() {
			e.Time = timeOf(prefix)
		}
		if e.Time.IsZero() && !e.Due.IsZero() {
			e.Time = e.Due.Add(-e.Delay)
		}
		text = true
	}
	due := e.Time.Add(e.Delay)
	if missing := e.Due.IsZero() && !e.Time.IsZero(); e.Kind == retry.RetryScheduled && (missing || text && due.Sub(e.Due).Abs() <= rounded) {
		e.Due = due
	}
}

// timeOf returns the time in a prefix, the zero time if there is none.
func timeOf(prefix []byte) time.Time {
	fields := bytes.Fields(prefix)
	for i, field := range fields[:min(len(fields), 8)] {
		if at, err := time.Parse(time.RFC3339Nano, string(field)); err == nil {
			return at
		}
		if i+1 < len(fields) {
			if at, err := time.ParseInLocation("2006/01/02 15:04:05", string(field)+" "+string(fields[i+1]), time.Local); err == nil {
				return at
			}
		}
	}
	return time.Time{}
}
