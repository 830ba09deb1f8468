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

// values are the texts that a line, or a JSON object in it, has for the keys that are read. Of a
// key that is there twice it has the last.
type values struct {
	texts []string // by the index of the key
	has   []bool
}

func newValues() *values { return &values{make([]string, len(keys)), make([]bool, len(keys))} }

// A key is a key that is read.
type key struct {
	index int  // in values: a field of a record has that of fields
	place bool // it says where a line is from
	group bool // it has places
	text  bool // it is read only if its value is a text
}

// keys are the keys that are read. Those of fields come first, in their order.
var keys = keysOf(fields)

func keysOf(fields []field) map[string]*key {
	all := make(map[string]*key, len(fields))
	for i, f := range fields {
		all[f.key] = &key{index: i}
	}
	return all
}

// indexes returns the indexes of keys, which it adds if they are new.
func indexes(names string) (list []int) {
	for name := range strings.FieldsSeq(names) {
		if keys[name] == nil {
			keys[name] = &key{index: len(keys)}
		}
		list = append(list, keys[name].index)
	}
	return list
}

// Places say where a line is from, the best first: those of a logger, of
// Fluent Bit and of journald. They may be within one of the groups. A carrier has the line that it
// was given in one of carried. Loggers are keys of a line that a program has logged as JSON: its
// texts may be a stranger's, so none of them is read as a line.
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

// object adds the values of a JSON object, and of its groups where it is from. Of a group it adds
// that there is one.
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

// pairs adds the values of a line of text, and returns the rest: what begins with a word that is
// not a pair, or with a value without a closing quotation mark, which is endless. Package slog
// has not written the rest as it is, because it quotes each text that has a space. The time is
// linear in the length of the line: no step copies the rest of it, and v holds no more than the
// keys.
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
		if string(name) == "level" { // a line begins, perhaps behind one that is cut off
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

// get returns the text of a key, "" if there is none.
func (v *values) get(name string) string { return v.texts[keys[name].index] }

func (v *values) clear() {
	for i, has := range v.has {
		if has {
			v.texts[i], v.has[i] = "", false
		}
	}
}

// first returns the first text that one of the keys has. A "-" is none.
func (v *values) first(indexes []int) string {
	for _, i := range indexes {
		if text := v.texts[i]; text != "" && text != "-" {
			return text
		}
	}
	return ""
}

// ours returns how many of the keys there are that each event must have. A line that a program
// logged for another purpose has none, even if it has keys of these names.
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

// line returns the line that a carrier was given and holds as a text: Docker or a collector of
// Kubernetes, or journald, of what a program or a container has printed. It is "" for any other
// object, such as one that a logger wrote, or one in which a collector has put keys of a logger
// and the text of a message in place of the line.
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

// decode finds the events in a line. They are where the library writes them: at the beginning of
// the line, or after what a source puts before it. From is the source of what is around a line
// that a carrier holds.
func (l *Reader) decode(line []byte, from string, isCarried bool) {
	begin := 0
	if !bytes.HasPrefix(line, []byte("{")) {
		begin = len(beforeEvent.Find(line[:min(len(line), longestPrefix)]))
	}
	event := bytes.TrimLeft(line[begin:], "\x00")
	zeros := len(event) < len(line)-begin // after a power failure
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

// text reads a line of package slog's text, whose pairs begin somewhere. It is cut off if the last
// key that such an event has is missing, or if a value has no end.
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

// lastKeys are the last keys that the events of slog always have. The others have a reason.
var lastKeys = map[string]string{
	"attempt_started": "elapsed", "attempt_finished": "took", "retry_scheduled": "err",
}

// objects reads the JSON objects of a line: one, except after a crash.
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

// beginning is how a record begins, and a line of slog. In a text it cannot be, where
// the quotation marks would be escaped. An object that a program logged within another
// may begin so too, but then the line is torn before it, and it has not all keys.
var beginning = regexp.MustCompile(`\{("key":"([^"\\]|\\.)*",)?"(kind|time)":`)

// mostInLine is how many JSON values of a line are read. A program that crashed again and again
// has left a few.
const mostInLine = 1000

// split returns the JSON values of a line, and whether some of it is missing. Text behind a value
// is skipped, and so is what follows the text. The fault says why an event is no JSON.
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
		part, _, zeros := bytes.Cut(data[begin:end], []byte{0}) // after a power failure
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

// add adds an event that has the values of l, after a prefix. If it was logged without a time, it
// gets the time in the prefix, or when its wait began, or the time of the last event.
func (l *Reader) add(r Record, prefix []byte, from string) {
	v := l.v
	r.Line, r.Logged = l.next.Number, v.logged()
	r.Source = cmp.Or(group(sources, prefix), v.first(places), from)
	if v.get("rule") != "" { // else a program has called something its task
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

// sources are how kubectl --prefix, docker compose, syslog in its two forms, and journalctl say
// where a line is from.
var sources = regexp.MustCompile(`^(?:\x1b\[[\d;]*m)?(?:` + strings.Join([]string{
	`\[(pod/\S+)\] `,
	`(\S+) +\|`,
	`(?:<\d+>)?[A-Z][a-z]{2} [ \d]\d [\d:]{8}(?:\.\d+)? (\S+ [^\s:]+): `,
	`\d{4}-\d\d-\d\dT[\d:.]+[+-]\d\d:?\d\d (\S+ [^\s:]+): `,
	`<\d+>1 \S+ (\S+ \S+ \S+) \S+ (?:-|(?:\[(?:[^\]\\]|\\.)*\])+) `,
}, "|") + `)`)

var (
	// beforeEvent is what may stand before an event: a source, the end of its color, the time that
	// kubectl or a container's runtime adds, and the stream of CRI.
	beforeEvent = regexp.MustCompile(`^(?:` + sources.String()[1:] + `)?(?:\x1b\[[\d;]*m)?` +
		`(?: *\d{4}-\d\d-\d\dT\S+ )?(?:(?:stdout|stderr) F )?[ \x{feff}]*`)
	// handlerText is how a line of slog's TextHandler begins, and defaultText one of slog.Default().
	handlerText = regexp.MustCompile(`^(?:time|level|msg|key|kind)=`)
	defaultText = regexp.MustCompile(`^\d{4}/\d\d/\d\d [\d:]{8}(?:\.\d+)? (?:\S+\.go:\d+: )?` +
		`(?:DEBUG|INFO|WARN|ERROR)(?:[+-]\d+)? (?:` + strings.Join(messages, "|") + `) `)
)

// longestPrefix is how much of a line is looked at to find where and when it is from.
const longestPrefix = 1 << 10

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
	if len(text) == 0 {
		return ""
	}
	found := pattern.FindSubmatch(text)
	return string(bytes.Join(found[min(1, len(found)):], nil))
}
