package policyfile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/printable"
	"github.com/goretry/retry/cmd/retry/internal/saturate"
)

// A Fault is a mistake at a line of a file, or a finding of `lint` about a line.
type Fault struct {
	File  string `json:"file"`
	Line  int    `json:"line"`
	Lint  bool   `json:"warning"`        // whether the setting is valid, but probably unintended
	Note  bool   `json:"note"`           // whether retry does not read the system of the setting
	Code  string `json:"code"`           // a code of retry.Finding, or one of the codes below
	Field string `json:"field,omitzero"` // the field of a retry.Policy; "" if there is none
	Key   string `json:"key,omitzero"`   // the key of the setting; "" if there is none
	Text  string `json:"text"`
}

// These are the codes of faults that are not findings of the library. The README of the command
// lists these codes.
const (
	unreadable  = "unreadable"
	NoPolicy    = "no_policy"
	ambiguous   = "ambiguous"
	notRead     = "not_read"
	noEffect    = "no_effect"
	refused     = "refused"
	multiply    = "attempts_multiply"
	forever     = "endless_attempts"
	shortDelays = "short_delays"
	neverRuns   = "unused_attempts"
	cutOff      = "cut_off"
)

// say is fmt.Sprintf, but writes the longest duration as "292 years".
func say(format string, args ...any) string { return fmt.Sprintf(format, saturate.Texts(args)...) }

// Error returns the fault in the form that compilers use: file:line: text.
func (f *Fault) Error() string {
	return fmt.Sprintf("%s:%d: %s", printable.Line(f.File), f.Line, printable.Line(f.Text))
}

// fault returns a fault about the whole block. The fault has the line of the first key of b in this
// list: max_attempts, max_retries, max_elapsed. If b has none of these keys, the fault has the line
// of b.
func (b *Block) fault(code, text string) *Fault {
	return &Fault{File: b.File, Line: b.lineOf(""), Code: code, Text: text}
}

// found converts a finding of the library to a fault. The fault has the line of the key in the
// finding.
func (b *Block) found(f retry.Finding) *Fault {
	return &Fault{
		File:  b.File,
		Line:  b.lineOf(f.Key),
		Code:  f.Code,
		Field: f.Field,
		Key:   f.Key,
		Text:  f.InKeys(),
	}
}

// A finder is an error with findings. Package retry, its dialects and the simulator return such
// errors.
type finder interface{ Findings() []retry.Finding }

// faults returns the faults in the error err, which a policy in the dialect d has caused. Each
// fault has the line of its key.
func (b *Block) faults(err error, d dialect) (faults []*Fault) {
	own, found := new(Fault), finder(nil)
	switch {
	case errors.As(err, &own):
		return []*Fault{own}
	case !errors.As(err, &found):
		return []*Fault{b.fault(unreadable, err.Error())}
	}
	for _, f := range found.Findings() {
		fault := b.found(f)
		if f.Code == "unknown_key" {
			if near := nearest(f.Key, d.all); near != "" {
				fault.Text = fmt.Sprintf("unknown key %s: write %s", strconv.Quote(f.Key), near)
			}
		}
		faults = append(faults, fault)
	}
	slices.SortStableFunc(faults, byLine)
	return faults
}

// byLine orders faults by their lines.
func byLine(f, g *Fault) int { return f.Line - g.Line }

// otherNames maps keys of a policy to their names in dialects.
var otherNames = map[string][]string{
	"backoff": {"base_delay", "retry_back_off"},
	"max_delay": {
		"max_backoff_ms", "max_backoff", "maximumInterval", "max_interval", "MaxDelaySeconds",
	},
	"max_elapsed":     {"max_elapsed_time", "backoff.maxDuration"},
	"attempt_timeout": {"per_try_timeout", "perTryTimeout", "timeout_seconds"},
}

// lineOf returns the line of a key of the native form, or of the key's name in a dialect. If b has
// neither, lineOf returns the line of the first key of b in this list: max_attempts, max_retries,
// max_elapsed. If b has none of these keys, lineOf returns the line of b.
func (b *Block) lineOf(key string) int {
	if top, _, _ := strings.Cut(key, "."); top != "" {
		if _, ok := b.line(top); ok {
			line, _ := b.line(key)
			return line
		}
	}
	for _, key := range append(slices.Clone(otherNames[key]), "max_attempts", "max_retries",
		"max_elapsed") {
		if line, ok := b.line(key); ok {
			return line
		}
	}
	return b.Line
}

// line returns the line of a key in b, such as backoff.delays[1]. If b does not have the key, ok is
// false, and `line` returns the line of the node that should contain the key.
func (b *Block) line(path string) (line int, ok bool) {
	node, line := b.node, b.Line
	separates := func(r rune) bool { return strings.ContainsRune(".[]", r) }
	for _, key := range strings.FieldsFunc(path, separates) {
		e, ok := firstEntry(node, func(e entry) bool {
			return e.key == key || snake(e.key) == snake(key)
		})
		if !ok {
			e, ok = firstEntry(node, func(e entry) bool { return strings.EqualFold(e.key, key) })
		}
		if !ok {
			return line, false
		}
		node, line = resolved(e.value), e.line
	}
	return line, true
}
