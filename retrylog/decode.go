package retrylog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/strict"
)

// values contains the texts of known keys in a line, or in a JSON object of the line. For a
// duplicate key, it contains the last text.
type values struct {
	texts []string // by the index of the key
	has   []bool
}

func newValues() *values { return &values{make([]string, len(keys)), make([]bool, len(keys))} }

// A key is a known key of a line.
type key struct {
	index int  // the index in values; the keys of fields have the index in fields
	place bool // the value says where a line is from
	group bool // the value is an object with places
	text  bool // the value is read only if it is a text
}

// keys are all known keys. The keys of fields come first, in the order of fields.
var keys = keysOf(fields)

func keysOf(fields []field) map[string]*key {
	all := make(map[string]*key, len(fields))
	for i, f := range fields {
		all[f.key] = &key{index: i}
	}
	return all
}

// indexes returns the indexes of keys. It adds keys that are new.
func indexes(names string) (list []int) {
	for name := range strings.FieldsSeq(names) {
		if keys[name] == nil {
			keys[name] = &key{index: len(keys)}
		}
		list = append(list, keys[name].index)
	}
	return list
}

// These are lists of keys:
//
//   - must: Every event has these keys.
//   - byLog: If a line has one of these keys, a logger wrote it.
//   - loggers: If a line has one of these keys, a program logged it as JSON. No text in such a
//     line is read as a line, because the text may come from a stranger.
//   - places: These keys say where a line is from, for a logger, Fluent Bit and journald. The
//     first of these keys that has a text is used. It may be inside an object.
//   - groups: These objects may contain a key of places.
//   - carried: A collector keeps a line in one of these keys.
var (
	must    = indexes("kind attempt max")
	byLog   = indexes("level msg message")
	loggers = indexes("level msg severity lvl levelname loglevel log.level logger")
	places  = indexes("pod pod_name k8s.pod.name host hostname host_name host.name instance _HOSTNAME")
	groups  = indexes("kubernetes k8s labels resource attributes")
	carried = indexes("log message MESSAGE")
	_       = indexes("task rule stream _TRANSPORT CONTAINER_ID")
)

func init() {
	for _, k := range keys {
		k.place, k.group = slices.Contains(places, k.index), slices.Contains(groups, k.index)
		k.text = slices.Contains(carried, k.index)
	}
}

// object adds the values of a JSON object, and the places in its groups. The value of a group
// itself is "{}". outer is false for an object inside a group.
func (v *values) object(object []byte, outer bool) {
	for name, value := range strict.Members(object) {
		k := keys[string(name)]
		if k == nil || !outer && !k.place || string(value) == "null" {
			continue
		}
		text, is := strict.Text(value)
		switch {
		case k.group && bytes.HasPrefix(value, []byte("{")):
			v.set(k, "{}")
			v.object(value, false)
		case is:
			v.set(k, text)
		case !k.group && !k.text && !(k.place && bytes.HasPrefix(value, []byte("{"))):
			v.set(k, string(value))
		}
	}
}

// pairs adds the values of a line of text. It stops at a word that is not a pair and at a value
// without a closing quotation mark, and returns the rest of the line. endless reports that the
// quotation mark is missing. Package slog did not write such a rest, because it quotes each
// text with a space. pairs takes linear time: no step copies the rest of the line, and v
// contains only known keys.
func (v *values) pairs(line []byte) (rest []byte, endless bool) {
	for len(line) > 0 {
		word, _, _ := bytes.Cut(line, []byte(" "))
		name, value, ok := bytes.Cut(word, []byte("="))
		if !ok {
			return line, false
		}
		k, text := keys[string(name)], ""
		if bytes.HasPrefix(value, []byte(`"`)) {
			value = strict.Value(line[len(name)+1:])
			word = line[:len(name)+1+len(value)]
			unquoted, err := strconv.Unquote(string(value))
			if err != nil {
				return line, true
			}
			text = unquoted
		} else if k != nil {
			text = string(value)
		}
		if string(name) == "level" { // a new line begins here, perhaps after a line that is cut off
			at, had := v.get("time"), v.has[keys["time"].index]
			if v.clear(); had {
				v.set(keys["time"], at)
			}
		}
		if k != nil {
			v.set(k, text)
		}
		line = bytes.TrimLeft(line[len(word):], " ")
	}
	return nil, false
}

func (v *values) set(k *key, text string) { v.texts[k.index], v.has[k.index] = text, true }

// get returns the text of a key, or "" if v lacks the key.
func (v *values) get(name string) string { return v.texts[keys[name].index] }

func (v *values) clear() {
	for i, has := range v.has {
		if has {
			v.texts[i], v.has[i] = "", false
		}
	}
}

// first returns the first text of the keys that is neither empty nor "-".
func (v *values) first(indexes []int) string {
	for _, i := range indexes {
		if text := v.texts[i]; text != "" && text != "-" {
			return text
		}
	}
	return ""
}

// ours returns how many keys of must v has. It returns 0 for a line of a logger with an unknown
// kind, because a program may use the same names of keys for other purposes.
func (v *values) ours() (n int) {
	if v.logged() && !known(retry.EventKind(v.get("kind"))) {
		return 0
	}
	for _, i := range must {
		if v.texts[i] != "" {
			n++
		}
	}
	return n
}

// logged reports whether a logger wrote the line.
func (v *values) logged() bool { return v.first(byLog) != "" }

// line returns the line of a program in an object of Docker, a collector of Kubernetes, or
// journald. It returns "" for any other object, such as an object that a logger wrote, or an
// object in which a collector has replaced the line by the keys of a logger and a message.
func (v *values) line() string {
	switch {
	case v.first(loggers) != "", v.get("log") != "" && v.get("message") != "":
		return ""
	case v.get("_TRANSPORT") == "stdout", v.get("_TRANSPORT") == "syslog", v.get("CONTAINER_ID") != "":
		return v.get("MESSAGE")
	case v.get("stream") == "stdout", v.get("stream") == "stderr", v.get("kubernetes") == "{}":
		return cmp.Or(v.get("log"), v.get("message"))
	}
	return ""
}

// decode finds the events in a line. An event is at the beginning of the line, or after a
// prefix such as the prefix of kubectl. If a collector wrapped the line in an object, isCarried
// is true and from is the source that the object names.
func (l *Reader) decode(line []byte, from string, isCarried bool) {
	begin := 0
	if !bytes.HasPrefix(line, []byte("{")) {
		begin = len(beforeEvent.Find(line[:min(len(line), longestPrefix)]))
	}
	event := bytes.TrimLeft(line[begin:], "\x00")
	zeros := len(event) < len(line)-begin // a power failure has left zero bytes
	l.next.Text = event
	switch {
	case bytes.HasPrefix(event, []byte("{")):
		l.objects(line[:begin], event, from, zeros, isCarried)
	case bytes.IndexByte(line, 0) >= 0:
		l.next.Err = ErrCutOff
	case handlerText.Match(event):
		l.text(line, begin, from)
	default:
		if message := defaultText.Find(event); message != nil {
			l.text(line, begin+len(message), from)
		}
	}
}

// text reads a line of slog's TextHandler. The pairs start at begin. The line is cut off if it
// lacks the last key of its kind of event, or if a value lacks its closing quotation mark.
func (l *Reader) text(line []byte, begin int, from string) {
	v := l.v
	v.clear()
	rest, endless := v.pairs(line[begin:])
	v.set(keys["level"], "text")
	last := cmp.Or(lastKeys[v.get("kind")], "reason")
	if bytes.Contains(line, []byte("attempt failed")) {
		last = "err"
	}
	whole := !endless && v.has[keys[last].index]
	r, fault := v.record()
	switch n := v.ours(); {
	case n == len(must) && whole && fault == nil:
		l.add(r, line[:begin], from)
	case fault != nil && n == len(must) && whole && !fault.isCut(last):
		l.next.Err = fault
	case n > 0, bytes.Contains(rest, []byte(" kind=")):
		l.next.Err = ErrCutOff
	}
}

// lastKeys are the last keys that slog always writes for each kind of event. The last key of
// other events is "reason".
var lastKeys = map[string]string{
	"attempt_started": "elapsed", "attempt_finished": "took", "retry_scheduled": "err",
}

// objects reads the JSON objects of a line. A line has one object, or more after a crash.
func (l *Reader) objects(prefix, data []byte, from string, torn, isCarried bool) {
	all, cut, fault := split(data)
	torn = torn || cut
	for _, object := range all {
		v := l.v
		v.clear()
		v.object(object, true)
		switch n := v.ours(); {
		case n == len(must):
			r, wrong := v.record()
			if wrong == nil {
				l.add(r, prefix, from)
			} else if fault == nil {
				fault = wrong
			}
		case !torn && !isCarried && v.line() != "":
			l.decode([]byte(strings.TrimSpace(v.line())), cmp.Or(v.first(places), from), true)
			return
		case n > 1 && !v.logged():
			fault = errors.New("the event has no kind, attempt or max")
		}
	}
	if l.next.Err = fault; torn {
		l.next.Err = ErrCutOff
	}
}

// beginning matches the first characters of a Record, and of a line of slog's JSONHandler. It
// cannot match inside a JSON string, because quotation marks are escaped there. It may match an
// object inside another object, but then the line is torn before the inner object, and the
// inner object lacks keys.
var beginning = regexp.MustCompile(`\{("key":"([^"\\]|\\.)*",)?"(kind|time)":`)

// mostInLine is how many JSON values of a line are read. A program that crashes several times
// leaves a few values on a line.
const mostInLine = 1000

// split returns the JSON values of a line. torn reports that a part of the line is missing. split
// skips a text after a value and everything after that text. fault says why an event is not
// valid JSON.
func split(data []byte) (all [][]byte, torn bool, fault error) {
	if json.Valid(data) {
		return [][]byte{data}, false, nil
	}
	isEvent := bytes.Contains(data, []byte(`"attempt"`)) && bytes.Contains(data, []byte(`"max"`))
	// If the end of a line was lost, the next process continued on the same line.
	for parts, begin := 0, 0; begin < len(data); parts++ {
		if parts == mostInLine || len(all) >= mostInLine {
			return all[:min(len(all), mostInLine)], true, fault
		}
		end := len(data)
		if next := beginning.FindIndex(data[begin+1:]); next != nil {
			end = begin + 1 + next[0]
		}
		part, _, zeros := bytes.Cut(data[begin:end], []byte{0}) // zero bytes of a power failure
		in, whole, err := json.NewDecoder(bytes.NewReader(part)), len(all), error(nil)
		for err == nil && len(all) < mostInLine {
			var object json.RawMessage
			if err = in.Decode(&object); err == nil {
				all = append(all, object)
			}
		}
		torn = torn || zeros || err == io.ErrUnexpectedEOF
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

// add adds the event r of a line with this prefix. If a logger wrote r without a time, r gets the
// time in the prefix, or else the time when its wait began, or else the time of the last event.
func (l *Reader) add(r Record, prefix []byte, from string) {
	v := l.v
	r.Line, r.Logged = l.next.Number, v.logged()
	r.Source = cmp.Or(group(sources, prefix), v.first(places), from)
	if v.get("rule") != "" { // without a rule, "task" is a key of some other program
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

// sources match the prefixes that say where a line is from: those of kubectl --prefix, docker
// compose, both forms of syslog, and journalctl.
var sources = regexp.MustCompile(`^(?:\x1b\[[\d;]*m)?(?:` + strings.Join([]string{
	`\[(pod/\S+)\] `,
	`(\S+) +\|`,
	`(?:<\d+>)?[A-Z][a-z]{2} [ \d]\d [\d:]{8}(?:\.\d+)? (\S+ [^\s:]+): `,
	`\d{4}-\d\d-\d\dT[\d:.]+[+-]\d\d:?\d\d (\S+ [^\s:]+): `,
	`<\d+>1 \S+ (\S+ \S+ \S+) \S+ (?:-|(?:\[(?:[^\]\\]|\\.)*\])+) `,
}, "|") + `)`)

var (
	// beforeEvent matches the text that may come before an event: a source, the end of its color,
	// the time that kubectl or a container runtime adds, and the stream of CRI.
	beforeEvent = regexp.MustCompile(`^(?:` + sources.String()[1:] + `)?(?:\x1b\[[\d;]*m)?` +
		`(?: *\d{4}-\d\d-\d\dT\S+ )?(?:(?:stdout|stderr) F )?[ \x{feff}]*`)
	// handlerText and defaultText match the first words of a line of slog's TextHandler and of
	// slog.Default().
	handlerText = regexp.MustCompile(`^(?:time|level|msg|key|kind)=`)
	defaultText = regexp.MustCompile(`^\d{4}/\d\d/\d\d [\d:]{8}(?:\.\d+)? (?:\S+\.go:\d+: )?` +
		`(?:DEBUG|INFO|WARN|ERROR)(?:[+-]\d+)? (?:` + strings.Join(messages, "|") + `) `)
)

// longestPrefix is how many bytes of a line are searched for its source and its time.
const longestPrefix = 1 << 10

// clock matches the first time in a prefix, in the form of containers or of Go's package log.
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

// group returns the text of the group that matched, or "" if the pattern does not match. At most
// one group of the pattern may match.
func group(pattern *regexp.Regexp, text []byte) string {
	if len(text) == 0 {
		return ""
	}
	found := pattern.FindSubmatch(text)
	return string(bytes.Join(found[min(1, len(found)):], nil))
}
