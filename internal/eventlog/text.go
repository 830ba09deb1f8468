package eventlog

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/strict"
)

// sources are how kubectl --prefix, docker compose, syslog in its two forms, and journalctl say
// where a line is from.
var sources = regexp.MustCompile(`^(?:\x1b\[[\d;]*m)?(?:` + strings.Join([]string{
	`\[(pod/\S+)\] `,
	`(\S+) +\|`,
	`(?:<\d+>)?[A-Z][a-z]{2} [ \d]\d [\d:]{8}(?:\.\d+)? (\S+ [^\s:]+): `,
	`\d{4}-\d\d-\d\dT[\d:.]+[+-]\d\d:?\d\d (\S+ [^\s:]+): `,
	`<\d+>1 \S+ (\S+ \S+ \S+) `,
}, "|") + `)`)

// sourceOf returns what a prefix says of where a line is from, or else a field of its JSON, "" if
// neither does.
func sourceOf(prefix, value []byte) string {
	if len(prefix) > 0 {
		found := sources.FindSubmatch(prefix)
		if source := bytes.Join(found[min(1, len(found)):], nil); len(source) > 0 { // of which one is not empty
			return string(source)
		}
	}
	return fieldSource(value, true)
}

// places are the fields that say where a line is from, the best first: those of a logger, of
// Fluent Bit and of journald. They may be within one of the groups.
var (
	places = strings.Fields("pod pod_name k8s.pod.name host hostname host_name host.name instance _HOSTNAME")
	groups = strings.Fields("kubernetes k8s labels resource attributes")
)

// fieldSource returns what a field of a JSON object, or of one of its groups, says of where it is
// from.
func fieldSource(object []byte, outer bool) string {
	if !contains(object, `"pod`, `"k8s`, `"host`, `"instance`, `"_HOST`) {
		return ""
	}
	source, best := "", len(places)
	for key, value := range strict.Members(object) {
		text, ok := strict.Text(value)
		if outer && slices.Contains(groups, string(key)) {
			key, text, ok = []byte(places[0]), fieldSource(value, false), true
		}
		if i := slices.Index(places, string(key)); ok && text != "" && i >= 0 && i < best {
			source, best = text, i
		}
	}
	return source
}

// unwrap returns what stands in a line of Docker's log, of Fluent Bit's or of journald's, behind its
// time, and where it is from.
func unwrap(line []byte) (inner []byte, source string) {
	if !bytes.HasPrefix(line, []byte("{")) || !contains(line, `"log":`, `"message":`, `"MESSAGE":`) {
		return line, ""
	}
	var text, at string
	for key, value := range strict.Members(line) {
		switch string(key) {
		case "log", "message", "MESSAGE":
			text, _ = strict.Text(value)
		case "time", "@timestamp":
			at, _ = strict.Text(value)
		case "__REALTIME_TIMESTAMP": // in microseconds
			micros, _ := strict.Text(value)
			n, _ := strconv.ParseInt(micros, 10, 64)
			at = time.UnixMicro(n).UTC().Format(time.RFC3339Nano)
		}
	}
	if text == "" {
		return line, ""
	}
	return bytes.TrimSpace([]byte(at + " " + text)), fieldSource(line, true)
}

// payload returns the JSON that a line has behind a prefix, or that has the keys and
// values of its text, and nil if there is neither.
func payload(line []byte) (value []byte, text bool, prefix []byte) {
	if i := bytes.Index(line, []byte(`{"`)); i >= 0 || bytes.HasPrefix(line, []byte("{")) {
		return line[max(0, i):], false, line[:max(0, i)]
	}
	if i := bytes.Index(line, []byte(" kind=")); i >= 0 || bytes.HasPrefix(line, []byte("kind=")) {
		return fromText(line), true, line[:i+1]
	}
	if bytes.IndexByte(line, 0) >= 0 { // after a power failure
		return line, false, nil
	}
	return nil, false, nil
}

// isEvent reports whether a JSON value that cannot be read has keys of events.
func isEvent(value []byte) bool {
	kind, attempt, limit := contains(value, `"kind"`), contains(value, `"attempt"`), contains(value, `"max"`)
	return kind && attempt || kind && limit || attempt && limit
}

// fromText returns a line of retrylog's Slog in text as JSON. The JSON of a line that is
// cut off is cut off too.
func fromText(line []byte) []byte {
	values, endless := pairs(string(line))
	for _, message := range messages { // slog's default handler writes it without a key
		if values["msg"] == "" && contains(line, " "+message+" k") {
			values["msg"] = message
		}
	}
	members := map[string]any{"level": "", "msg": ""}
	for key, text := range values {
		members[key] = text
		if n, err := strconv.Atoi(text); err == nil && (key == "attempt" || key == "total" || key == "max" || key == "resets") {
			members[key] = n
		}
	}
	value, _ := json.Marshal(members)
	if endless || isTorn(values) {
		return value[:len(value)-1]
	}
	return value
}

// isTorn reports whether the last key that such an event has is missing, or its value is
// cut off.
func isTorn(values map[string]string) bool {
	last := map[string]string{"attempt_started": "elapsed", "attempt_finished": "took", "retry_scheduled": "err", "call_finished": "reason"}[values["kind"]]
	if values["msg"] == MessageFailed {
		last = "err"
	}
	text, ok := values[last]
	if _, err := time.ParseDuration(text); err != nil && (last == "elapsed" || last == "took") {
		return true
	}
	return !ok && last != ""
}

// pairs returns the values that a line of text has for keys of events, and skips the rest.
// Of a key that is there twice it takes the last, which is the event's. A value is endless
// if it has no closing quotation mark. The time is linear in the length of the line: no step
// copies the rest of it, and values holds no more than the known keys and places.
func pairs(line string) (values map[string]string, endless bool) {
	values = map[string]string{}
	for len(line) > 0 {
		word, _, _ := strings.Cut(line, " ")
		key, text, ok := strings.Cut(word, "=")
		if ok && strings.HasPrefix(text, `"`) {
			quoted, err := strconv.QuotedPrefix(line[len(key)+1:])
			if err != nil {
				return values, true
			}
			text, _ = strconv.Unquote(quoted)
			word = line[:len(key)+1+len(quoted)]
		}
		name := strings.TrimPrefix(key, "\ufeff") // syslog may begin a message so
		// A line begins, perhaps behind one that is cut off.
		if ok && name == "level" {
			maps.DeleteFunc(values, func(key, _ string) bool { return key != "time" })
		}
		if ok && (name == "msg" || slices.Contains(places, name) || slices.ContainsFunc(fields, func(f field) bool { return f.key == name })) {
			values[name] = text
		}
		line = strings.TrimLeft(line[len(word):], " ")
	}
	return values, false
}

// complete gives an event without a time the one in a prefix, or else the time of the last
// event, and nanoseconds to a time that text has rounded.
func complete(e *retry.Event, prefix []byte, text bool, last time.Time) {
	rounded := time.Millisecond // by slog's TextHandler
	if e.Time.IsZero() {
		rounded, text = time.Second, true
		if e.Time = timeOf(prefix); e.Time.IsZero() && !e.Due.IsZero() {
			e.Time = e.Due.Add(-e.Delay)
		}
	}
	due := e.Time.Add(e.Delay)
	if missing := e.Due.IsZero() && !e.Time.IsZero(); e.Kind == retry.RetryScheduled && (missing || text && due.Sub(e.Due).Abs() <= rounded) {
		e.Due = due
	}
	if e.Time.IsZero() {
		e.Time = last
	}
}

// clock is the first time in a prefix, as containers and Go's package log write it.
var clock = regexp.MustCompile(`(?:^|\s)(\d{4}-\d\d-\d\dT\S+|\d{4}/\d\d/\d\d [\d:]{8})\s`)

// timeOf returns the time in a prefix, the zero time if there is none.
func timeOf(prefix []byte) time.Time {
	found := clock.FindSubmatch(prefix)
	if found == nil {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, string(found[1]))
	if err != nil {
		at, _ = time.ParseInLocation("2006/01/02 15:04:05", string(found[1]), time.Local)
	}
	return at
}
