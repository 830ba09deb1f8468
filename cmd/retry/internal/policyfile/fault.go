package policyfile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/printable"
	"github.com/goretry/retry/internal/strict"
)

// A Fault is something wrong, or something that Lint reports, at a line of a
// file.
type Fault struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Lint bool   `json:"warning"` // valid, but probably unintended
	Note bool   `json:"note"`    // of a system whose settings are not read
	Text string `json:"text"`
}

// Error returns the fault in the form that compilers use.
func (f *Fault) Error() string {
	return fmt.Sprintf("%s:%d: %s", printable.Line(f.File), f.Line, printable.Line(f.Text))
}

var (
	goName = regexp.MustCompile(`\b[A-Z]\w*(?:\([^()]*\))? \(([a-z0-9_.]+(?:: false)?)\)`)
	goType = regexp.MustCompile(`\ba retry\.[A-Z]\w*`)
	others = strings.NewReplacer("Fixed(0)", "a fixed backoff of 0s", "nil (0)", "0", " an exponential", " exponential", " a fixed or", " fixed or",
		"MaxAttempts, MaxRetries, a Budget or a Backoff (Fixed(10*time.Millisecond))", "max_attempts or max_retries, or a backoff such as {type: fixed, base: 1s}")
)

// InKeys returns a text of the library in the words of a policy file: max_delay
// for "MaxDelay (max_delay)".
func InKeys(text string) string {
	text = strings.ReplaceAll(text, "a Schedule (delays)", "a list (delays)")
	text = goType.ReplaceAllStringFunc(goName.ReplaceAllString(text, "$1"), func(name string) string {
		return strings.ToLower(strings.TrimPrefix(name, "a retry."))
	})
	return others.Replace(text)
}

var linePrefix = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)

// fault returns the fault for the error of a parser, which may begin with a
// line number.
func (f *File) fault(text string) *Fault {
	prefix := linePrefix.FindStringSubmatch(text)
	line, err := strconv.Atoi(prefix[1])
	if err != nil {
		line = 1
	}
	return &Fault{File: f.Name, Line: line, Text: strings.Join(strings.Fields(text[len(prefix[0]):]), " ")}
}

// Fault returns a fault of b at the line of the key with which text begins.
func (b *Block) Fault(text string) *Fault {
	return &Fault{File: b.File, Line: b.lineNamed(text), Text: InKeys(text)}
}

// Lint returns what [retry.Policy.Lint] reports about the policy in b, and what is
// right in code, which has a context and a budget, but seldom in a file.
func (b *Block) Lint(p retry.Policy) (faults []*Fault) {
	texts := p.Lint()
	if b.All > 0 { // which the library does not know
		texts = slices.DeleteFunc(texts, func(text string) bool { return strings.Contains(text, "or MaxElapsed (max_elapsed)") })
	}
	if delays := p.Delays(100); p.EffectiveMax() == retry.Unlimited && p.MaxElapsed == 0 && b.All == 0 && len(delays) > 0 && delays[len(delays)-1] < leastForever {
		texts = append(texts, fmt.Sprintf("unlimited attempts (max_attempts), at most %v apart: a target that is down gets %.0f an hour from each call; set max_elapsed, or a longer delay",
			delays[len(delays)-1], time.Hour.Seconds()/max(1e-3, delays[len(delays)-1].Seconds())))
	}
	if len(b.templates) > 0 { // what is not known here may be what is missing
		texts = nil
	}
	for _, text := range texts {
		faults = append(faults, &Fault{File: b.File, Line: b.lineNamed(text), Lint: true, Text: InKeys(text)})
	}
	for _, w := range append(slices.Clone(b.warnings), b.lintBounds(p)...) { // in the words of its system
		line, beside := b.lines[w.key]
		if !beside {
			line, _ = b.line(w.key)
		}
		faults = append(faults, &Fault{File: b.File, Line: line, Lint: true, Text: w.text})
	}
	return faults
}

// leastForever is how far apart attempts should be that go on forever.
const leastForever = time.Second

var (
	errorPrefix = regexp.MustCompile(`^(?:(?:(?:retry: )?invalid policy|retrydialect: \w+): )?(?:yaml: )?`)
	firstWord   = regexp.MustCompile(`^[a-zA-Z_]+[.[\w\]]*`)
	unknownKeys = regexp.MustCompile(`^unknown key (.*): `)
	quoted      = regexp.MustCompile(`"([^"]+)"`)
	named       = regexp.MustCompile(`\(([a-z_]+)\b[^)]*\)`)
)

// faults returns the faults in an error of the library, each at the line of its key.
func (b *Block) faults(err error) (faults []*Fault) {
	if found := new(Fault); errors.As(err, &found) {
		return []*Fault{found}
	}
	texts := []string{errorPrefix.ReplaceAllString(err.Error(), "")}
	if list := new(strict.Error); errors.As(err, &list) {
		texts = list.Texts
	}
	for _, text := range texts {
		unknown := unknownKeys.FindStringSubmatch(text)
		if unknown == nil {
			faults = append(faults, b.Fault(text))
			continue
		}
		for _, key := range quoted.FindAllStringSubmatch(unknown[1], -1) {
			line, _ := b.line(key[1])
			fault := &Fault{File: b.File, Line: line, Text: strings.Replace(text, unknown[1], key[0], 1)}
			if near := nearest(key[1], listed(text)); near != "" {
				fault.Text = fmt.Sprintf("unknown key %s: write %s", key[0], near)
			}
			faults = append(faults, fault)
		}
	}
	slices.SortStableFunc(faults, byLine)
	return faults
}

// listed returns the keys that the last fault of a text lists in place of an unknown one.
func listed(text string) []string {
	return strings.Split(text[strings.LastIndex(text, " are ")+len(" are "):], ", ")
}

var separators = strings.NewReplacer("_", "", "-", "", " ", "")

// nearest returns the key that was probably meant, "" if there is none.
func nearest(key string, keys []string) string {
	if len(key) > 60 { // the work grows with both
		return ""
	}
	prefix := key[:strings.LastIndex(key, ".")+1]
	plain := func(key string) string { return strings.ToLower(separators.Replace(key)) }
	written := plain(key[len(prefix):])
	best, least := "", 2+len(written)/8
	for _, k := range keys {
		if d := levenshtein.ComputeDistance(written, plain(k)); d < least || d == 0 {
			best, least = prefix+k, d
		}
	}
	return best
}

// otherNames are the names in dialects of keys that Lint mentions.
var otherNames = map[string][]string{
	"delays":          {"backoff.delays"},
	"backoff":         {"base_delay", "retry_back_off"},
	"max_delay":       {"max_backoff_ms", "max_backoff", "maximumInterval", "max_interval", "MaxDelaySeconds"},
	"max_elapsed":     {"max_elapsed_time", "backoff.maxDuration"},
	"attempt_timeout": {"per_try_timeout", "perTryTimeout", "timeout_seconds"},
}

// lineNamed returns the line of the key that a text is about: the text begins
// with the key, or has it in parentheses. A text about the limits as a whole is
// at the first limit.
func (b *Block) lineNamed(text string) int {
	if path, ok := strings.CutPrefix(text, hintText); ok {
		path, _, _ = strings.Cut(path, ": use -at ")
		line, _ := b.line(strings.TrimPrefix(path, b.At+"."))
		return line
	}
	if key := firstWord.FindString(text); key != "" {
		top, _, _ := strings.Cut(key, ".")
		if _, ok := b.line(top); ok {
			line, _ := b.line(key)
			return line
		}
	}
	var keys []string
	for _, key := range named.FindAllStringSubmatch(text, -1) {
		keys = append(append(keys, key[1]), otherNames[key[1]]...)
	}
	for _, key := range append(keys, "max_attempts", "max_retries", "max_elapsed") {
		if line, ok := b.line(key); ok {
			return line
		}
	}
	return b.Line
}
