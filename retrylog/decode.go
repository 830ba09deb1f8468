package retrylog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// decode finds the events in a line. An event is at the beginning of the line, or after a prefix
// such as "[pod/web-3/web] " of kubectl. If the line comes from the JSON object of a collector,
// isCarried is true, and `from` is the source, such as a pod, that the object names.
func (l *Reader) decode(line []byte, from string, isCarried bool) {
	begin := 0
	if !bytes.HasPrefix(line, []byte("{")) {
		begin = len(beforeEvent.Find(line[:min(len(line), longestPrefix)]))
	}
	event := bytes.TrimLeft(line[begin:], "\x00")
	nuls := len(event) < len(line)-begin // true: a power failure left NUL bytes
	l.next.Text = event
	switch {
	case bytes.HasPrefix(event, []byte("{")):
		l.decodeObjects(line[:begin], event, from, nuls, isCarried)
	case bytes.IndexByte(line, 0) >= 0:
		l.next.Err = ErrCutOff
	case handlerText.Match(event):
		l.decodeText(line, begin, from)
	default:
		if message := defaultText.Find(event); message != nil {
			l.decodeText(line, begin+len(message), from)
		}
	}
}

// decodeText reads a line of slog's TextHandler, whose key=value pairs start at the index `begin`.
// It counts the line as cut off if the line lacks the last key that events of this kind have, or if
// a value lacks its closing quotation mark.
func (l *Reader) decodeText(line []byte, begin int, from string) {
	v := l.v
	v.clear()
	rest, endless := v.pairs(line[begin:])
	v.set(keys["level"], []byte("text"))
	last := cmp.Or(lastKeys[v.get("kind")], "reason")
	if bytes.Contains(line, []byte("attempt failed")) {
		last = "err"
	}
	whole := !endless && v.texts[keys[last].index] != nil
	r, fault := v.record()
	switch n := v.requiredKeys(); {
	case n == len(required) && whole && fault == nil:
		l.add(r, line[:begin], from)
	case fault != nil && n == len(required) && whole && !fault.isCut(last):
		l.next.Err = fault
	case n > 0, bytes.Contains(rest, []byte(" kind=")):
		l.next.Err = ErrCutOff
	}
}

// decodeObjects reads the JSON objects of a line. If a crash cut off a line, its newline is
// missing, so the next process continued on the same line. Such a line may have more than one
// object.
func (l *Reader) decodeObjects(prefix, data []byte, from string, torn, isCarried bool) {
	all, cut, fault := split(data)
	torn = torn || cut
	for _, object := range all {
		v := l.v
		v.clear()
		v.object(object, true)
		switch n := v.requiredKeys(); {
		case n == len(required):
			r, wrong := v.record()
			if wrong == nil {
				l.add(r, prefix, from)
			} else if fault == nil {
				fault = wrong
			}
		case !torn && !isCarried && v.wrappedLine() != "":
			l.decode([]byte(strings.TrimSpace(v.wrappedLine())), cmp.Or(v.firstText(places), from), true)
			return
		case n > 1 && !v.logged():
			fault = errors.New("the event lacks one of the keys kind, attempt and max")
		}
	}
	if l.next.Err = fault; torn {
		l.next.Err = ErrCutOff
	}
}

// The pattern `beginning` matches the first characters of an event in JSON, as a Writer or slog's
// JSONHandler writes it. It cannot match inside a JSON string, because quotation marks are escaped
// there. If the pattern matches an object inside another object, `split` ends the outer object
// there, so the outer object counts as cut off. The inner object is not an event, because it lacks
// required keys.
var beginning = regexp.MustCompile(`\{("key":"([^"\\]|\\.)*",)?"(kind|time)":`)

// mostInLine is the largest number of JSON values that are read from one line. A program that
// crashes several times leaves only a few values on a line.
const mostInLine = 1000

// The function `split` returns the JSON values of a line. The result `torn` reports whether a part
// of the line is missing. If a part is missing, `split` skips each text that is not JSON: it goes
// on at the next match of `beginning`. If no part is missing, `split` stops at the first text that
// is not JSON. The result `fault` says why an event is not valid JSON.
func split(data []byte) (all [][]byte, torn bool, fault error) {
	if json.Valid(data) {
		return [][]byte{data}, false, nil
	}
	isEvent := bytes.Contains(data, []byte(`"attempt"`)) && bytes.Contains(data, []byte(`"max"`))
	// If a crash cut off a line, the next process continued on the same line.
	for parts, begin := 0, 0; begin < len(data); parts++ {
		if parts == mostInLine || len(all) >= mostInLine {
			return all[:min(len(all), mostInLine)], true, fault
		}
		end := len(data)
		if next := beginning.FindIndex(data[begin+1:]); next != nil {
			end = begin + 1 + next[0]
		}
		part, _, nuls := bytes.Cut(data[begin:end], []byte{0}) // a power failure may leave NUL bytes
		in, whole, err := json.NewDecoder(bytes.NewReader(part)), len(all), error(nil)
		for err == nil && len(all) < mostInLine {
			var object json.RawMessage
			if err = in.Decode(&object); err == nil {
				all = append(all, object)
			}
		}
		torn = torn || nuls || err == io.ErrUnexpectedEOF
		if err != nil && err != io.EOF && isEvent && len(all) == whole {
			fault = err
		}
		if err != nil && err != io.EOF && !torn {
			break
		}
		begin = end
	}
	return all, torn, fault
}

// The method `add` adds r to the events of the line. `prefix` is the text before the event. If a
// logger wrote r without a time, r gets the time in the prefix. If the prefix has no time, r gets
// the start of the wait before a retry (Due minus Delay). If r has no Due either, r gets the time
// of the event before.
func (l *Reader) add(r Record, prefix []byte, from string) {
	v := l.v
	r.Line, r.Logged = l.next.Number, v.logged()
	r.Source = cmp.Or(group(sources, prefix), v.firstText(places), from)
	if v.get("rule") != "" { // without "rule", the key "task" is from another program than retryflow
		r.Task = v.get("task")
	}
	e := &r.Event
	if r.Logged && e.Time.IsZero() {
		begun := e.Due.Add(-e.Delay)
		if e.Due.IsZero() {
			begun = l.last
		}
		e.Time = cmp.Or(timeOf(prefix), begun)
	}
	if r.Logged && e.Kind == retry.RetryScheduled && e.Due.IsZero() {
		e.Due = e.Time.Add(e.Delay)
	}
	l.last = e.Time
	l.next.Records = append(l.next.Records, r)
}

// The pattern `sources` matches a prefix that names the source of a line. Such prefixes come from
// kubectl --prefix, docker compose, syslog (RFC 3164 and RFC 5424), and journalctl.
var sources = regexp.MustCompile(`^(?:\x1b\[[\d;]*m)?(?:` + strings.Join([]string{
	`\[(pod/\S+)\] `,
	`(\S+) +\|`,
	`(?:<\d+>)?[A-Z][a-z]{2} [ \d]\d [\d:]{8}(?:\.\d+)? (\S+ [^\s:]+): `,
	`\d{4}-\d\d-\d\dT[\d:.]+[+-]\d\d:?\d\d (\S+ [^\s:]+): `,
	`<\d+>1 \S+ (\S+ \S+ \S+) \S+ (?:-|(?:\[(?:[^\]\\]|\\.)*\])+) `,
}, "|") + `)`)

var (
	// beforeEvent matches the text that may come before an event: a source (such as the name of a
	// pod), the escape code that ends the color of the source, a time, and "stdout F" or "stderr F".
	// kubectl and container runtimes add the time. CRI adds the name of the stream.
	beforeEvent = regexp.MustCompile(`^(?:` + sources.String()[1:] + `)?(?:\x1b\[[\d;]*m)?` +
		`(?: *\d{4}-\d\d-\d\dT\S+ )?(?:(?:stdout|stderr) F )?[ \x{feff}]*`)
	// handlerText and defaultText match the first words of a line of slog's TextHandler and of
	// slog.Default().
	handlerText = regexp.MustCompile(`^(?:time|level|msg|key|kind)=`)
	defaultText = regexp.MustCompile(`^\d{4}/\d\d/\d\d [\d:]{8}(?:\.\d+)? (?:\S+\.go:\d+: )?` +
		`(?:DEBUG|INFO|WARN|ERROR)(?:[+-]\d+)? (?:` + strings.Join(messages, "|") + `) `)
)

// longestPrefix is how many bytes at the start of a line are searched for a source and a time.
const longestPrefix = 1 << 10

// The pattern `clock` matches the first time in a prefix, in the format of container runtimes or of
// Go's package log.
var clock = regexp.MustCompile(`(?:^|\s)(\d{4}-\d\d-\d\dT\S+|\d{4}/\d\d/\d\d [\d:]{8})\s`)

// timeOf returns the time in a prefix, or the zero time if the prefix contains no time.
func timeOf(prefix []byte) time.Time {
	text := group(clock, prefix)
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		at, _ = time.ParseInLocation("2006/01/02 15:04:05", text, time.Local)
	}
	return at
}

// The function `group` returns the text that a capturing group of the pattern matched, or "" if the
// pattern does not match. At most one of the groups of the pattern may match.
func group(pattern *regexp.Regexp, text []byte) string {
	if len(text) == 0 {
		return ""
	}
	found := pattern.FindSubmatch(text)
	return string(bytes.Join(found[min(1, len(found)):], nil))
}
