package eventlog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/strict"
)

// values are the texts that a line, or a JSON object in it, has for the keys that are read. Of a
// key that is there twice it has the last.
type values map[string]string

// places are the fields that say where a line is from, the best first: those of a logger, of
// Fluent Bit and of journald. They may be within one of the groups. inner are those that have
// the line that Docker, Fluent Bit or journald was given, or the message of a logger.
var (
	places = strings.Fields("pod pod_name k8s.pod.name host hostname host_name host.name instance _HOSTNAME")
	groups = strings.Fields("kubernetes k8s labels resource attributes")
	inner  = strings.Fields("log message MESSAGE msg")
)

// keys are those that are read.
var keys = func() map[string]bool {
	keys := map[string]bool{"level": true, "task": true, "rule": true}
	for _, name := range slices.Concat(places, inner, accessNames) {
		keys[name] = true
	}
	for _, f := range fields {
		keys[f.key] = true
	}
	return keys
}()

// object adds the values of a JSON object, and of its groups where it is from.
func (v values) object(object []byte, outer bool) {
	for key, value := range strict.Members(object) {
		switch {
		case outer && slices.Contains(groups, string(key)):
			v.object(value, false)
		case !keys[string(key)], !outer && !slices.Contains(places, string(key)), string(value) == "null":
		default:
			text, is := strict.Text(value)
			if !is {
				text = string(value)
			}
			v[string(key)] = text
		}
	}
}

// pairs adds the values of a line of text, and skips what is no key of them. A value is endless
// if it has no closing quotation mark. The time is linear in the length of the line: no step
// copies the rest of it, and v holds no more than the keys.
func (v values) pairs(line string) (endless bool) {
	for len(line) > 0 {
		word, _, _ := strings.Cut(line, " ")
		key, text, ok := strings.Cut(word, "=")
		if ok && strings.HasPrefix(text, `"`) {
			quoted, err := strconv.QuotedPrefix(line[len(key)+1:])
			if err != nil {
				return true
			}
			text, _ = strconv.Unquote(quoted)
			word = line[:len(key)+1+len(quoted)]
		}
		name := strings.TrimPrefix(key, "\ufeff") // syslog may begin a message so
		// A line begins, perhaps behind one that is cut off.
		if ok && name == "level" {
			maps.DeleteFunc(v, func(key, _ string) bool { return key != "time" })
		}
		if ok && keys[name] {
			v[name] = text
		}
		line = strings.TrimLeft(line[len(word):], " ")
	}
	return false
}

// first returns the first text that one of the keys has. A "-" is none.
func (v values) first(keys ...string) string {
	for _, key := range keys {
		if v[key] != "" && v[key] != "-" {
			return v[key]
		}
	}
	return ""
}

var must = []string{"kind", "attempt", "max"}

// ours returns how many of the keys there are that each event must have. A line that a program logged
// for another purpose has none, even if it has keys of these names.
func (v values) ours() (n int) {
	if v.logged() && !known(retry.EventKind(v["kind"])) {
		return 0
	}
	for _, key := range must {
		if v[key] != "" {
			n++
		}
	}
	return n
}

// logged reports whether a logger wrote the line.
func (v values) logged() bool { return v.first("level", "msg", "message") != "" }

// decode finds the events in a line. From is the source of what is around it.
func (l *Files) decode(f *file, line []byte, from string) {
	begin, kind := bytes.Index(line, []byte(`{"`)), bytes.Index(line, []byte(" kind="))
	if bytes.HasPrefix(line, []byte("{")) || begin < 0 && bytes.IndexByte(line, 0) >= 0 {
		begin = 0
	}
	switch {
	case bytes.Contains(line, []byte(`] "`)) && accessLine.Match(line):
		l.access(f, ofAccessLine(line))
	case begin >= 0:
		l.objects(f, line[:begin], line[begin:], from)
	case kind >= 0 || bytes.HasPrefix(line, []byte("kind=")):
		l.text(f, line[:kind+1], line, from)
	}
}

// text reads a line of package slog's text. It is cut off if the last key that such an event has
// is missing, or if a value cannot be read.
func (l *Files) text(f *file, prefix, line []byte, from string) {
	v := values{}
	endless := v.pairs(string(line))
	v["level"] = "text"
	last := map[string]string{"attempt_started": "elapsed", "attempt_finished": "took", "retry_scheduled": "err"}[v["kind"]]
	if bytes.Contains(line, []byte("attempt failed")) {
		last = "err"
	}
	_, whole := v[cmp.Or(last, "reason")]
	r, err := v.record()
	switch n := v.ours(); {
	case n == 0:
	case n < len(must) || endless || err != nil || !whole:
		l.tear(f)
	default:
		l.add(f, r, v, prefix, from)
	}
}

// objects reads the JSON objects of a line: one, except after a crash.
func (l *Files) objects(f *file, prefix, data []byte, from string) {
	all, torn, fault := split(data)
	torn = torn || bytes.IndexByte(prefix, 0) >= 0
	for _, object := range all {
		v := values{}
		v.object(object, true)
		text := v.first("log", "message", "MESSAGE")
		switch n := v.ours(); {
		case n == len(must):
			r, err := v.record()
			if fault = cmp.Or(fault, err); err == nil {
				l.add(f, r, v, prefix, from)
			}
		case v["response_flags"] != "":
			l.access(f, v)
			return
		case text != "" && !torn:
			l.decode(f, []byte(strings.TrimSpace(text)), cmp.Or(v.first(places...), from))
			return
		case n > 1 && !v.logged():
			fault = fmt.Errorf("the event has no kind, attempt or max")
		}
	}
	switch {
	case torn:
		l.tear(f)
	case fault != nil:
		l.Bad++
		l.First = cmp.Or(l.First, &Fault{Record{Line: f.line, origin: origin{file: f}}, fault})
	}
}

// beginning is how a record begins, and a line of slog. In a text it cannot be, where
// the quotation marks would be escaped. An object that a program logged within another
// may begin so too, but then the line is torn before it, and it has not all keys.
var beginning = regexp.MustCompile(`\{("key":"([^"\\]|\\.)*",)?"(kind|time)":`)

// split returns the JSON values of a line, and whether some of it is missing. Text behind a value
// is skipped. The fault says why an event is no JSON.
func split(data []byte) (all [][]byte, torn bool, fault error) {
	if json.Valid(data) {
		return [][]byte{data}, false, nil
	}
	isEvent := bytes.Contains(data, []byte(`"attempt"`)) && bytes.Contains(data, []byte(`"max"`))
	// If the end of a line was lost, the next process continued on the same line.
	parts := beginning.ReplaceAll(data, []byte("\n$0"))
	for part := range bytes.SplitSeq(parts, []byte("\n")) {
		part, _, zeros := bytes.Cut(part, []byte{0}) // after a power failure
		in, whole, err := json.NewDecoder(bytes.NewReader(part)), len(all), error(nil)
		for err == nil {
			var object json.RawMessage
			if err = in.Decode(&object); err == nil {
				all = append(all, object)
			}
		}
		if torn = torn || zeros || err == io.ErrUnexpectedEOF; err != io.EOF && isEvent && len(all) == whole {
			fault = err
		}
	}
	return all, torn, fault
}

// add adds an event that has values v, behind a prefix. If it was logged without a time, it gets
// the one in the prefix, or when its wait began, or the time of the last event.
func (l *Files) add(f *file, r Record, v values, prefix []byte, from string) {
	prefix = prefix[:min(len(prefix), 1<<10)] // when and where from stand at the beginning
	r.Line, r.file, r.logged = f.line, f, v.logged()
	r.source = cmp.Or(r.source, group(sources, prefix), v.first(places...), from)
	if v["rule"] != "" { // else a program has called something its task
		r.task = v["task"]
	}
	e := &r.Event
	if r.logged && e.Time.IsZero() {
		begun := e.Due.Add(-e.Delay)
		if e.Due.IsZero() {
			begun = f.last
		}
		e.Time = cmp.Or(timeOf(prefix), begun)
	}
	if r.logged && e.Kind == retry.RetryScheduled && e.Due.IsZero() {
		e.Due = e.Time.Add(e.Delay)
	}
	if f.last = e.Time; f.first.IsZero() {
		f.first = f.last
	}
	f.read = append(f.read, r)
}

// sources are how kubectl --prefix, docker compose, syslog in its two forms, and journalctl say
// where a line is from.
var sources = regexp.MustCompile(`^(?:\x1b\[[\d;]*m)?(?:` + strings.Join([]string{
	`\[(pod/\S+)\] `,
	`(\S+) +\|`,
	`(?:<\d+>)?[A-Z][a-z]{2} [ \d]\d [\d:]{8}(?:\.\d+)? (\S+ [^\s:]+): `,
	`\d{4}-\d\d-\d\dT[\d:.]+[+-]\d\d:?\d\d (\S+ [^\s:]+): `,
	`<\d+>1 \S+ (\S+ \S+ \S+) `,
}, "|") + `)`)

// clock is the first time in a prefix, as containers and Go's package log write it.
var clock = regexp.MustCompile(`(?:^|\s)(\d{4}-\d\d-\d\dT\S+|\d{4}/\d\d/\d\d [\d:]{8})\s`)

// timeOf returns the time in a prefix, the zero time if there is none.
func timeOf(prefix []byte) time.Time {
	text := group(clock, prefix)
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		at, _ = time.ParseInLocation("2006/01/02 15:04:05", text, time.Local)
	}
	return at
}

// group returns the one group of a pattern that is not empty in a text, "" if there is none.
func group(pattern *regexp.Regexp, text []byte) string {
	found := pattern.FindSubmatch(text)
	return string(bytes.Join(found[min(1, len(found)):], nil))
}
