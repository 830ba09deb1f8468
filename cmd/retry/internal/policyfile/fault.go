package policyfile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goretry/retry"
)

// A Fault is something wrong at a line of a file, or something that Lint
// reports.
type Fault struct {
	File string
	Line int
	Lint bool // valid, but probably unintended
	Text string
}

// Error returns the fault as compilers print one.
func (f *Fault) Error() string { return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text) }

var linePrefix = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)

// fault returns the fault that an error of a parser describes, which may begin
// with its line.
func (f *File) fault(text string) *Fault {
	prefix := linePrefix.FindStringSubmatch(text)
	line, err := strconv.Atoi(prefix[1])
	if err != nil {
		line = 1
	}
	return &Fault{File: f.Name, Line: line, Text: strings.Join(strings.Fields(text[len(prefix[0]):]), " ")}
}

// Fault returns a fault of b whose text begins with a key of a policy, at the
// line of that key.
func (b *Block) Fault(text string) *Fault {
	return &Fault{File: b.File, Line: b.lineNamed(text), Text: text}
}

// Lint returns what [retry.Policy.Lint] reports about the policy in b.
func (b *Block) Lint(p retry.Policy) (faults []*Fault) {
	for _, text := range p.Lint() {
		faults = append(faults, &Fault{File: b.File, Line: b.lineNamed(text), Lint: true, Text: text})
	}
	return faults
}

var (
	errorPrefix = regexp.MustCompile(`^(?:(?:(?:retry: )?invalid policy|retrydialect: \w+): )?(?:yaml: )?`)
	nextFault   = regexp.MustCompile(`; (?:(\w+)[.[\w\]]* is |\w+ key "|and \d+ more$)`)
	firstWord   = regexp.MustCompile(`^[a-z_]+[.[\w\]]*`)
	unknownKeys = regexp.MustCompile(`^unknown key (.*): `)
	quoted      = regexp.MustCompile(`"([^"]+)"`)
	named       = regexp.MustCompile(`\(([a-z_]+)\b[^)]*\)`)
)

// faults returns the faults that an error of the library lists on one line, at
// the lines of their keys.
func (b *Block) faults(d dialect, err error) (faults []*Fault) {
	say := func(line int, text string) {
		faults = append(faults, &Fault{File: b.File, Line: line, Text: text})
	}
	for _, text := range split(d, errorPrefix.ReplaceAllString(err.Error(), "")) {
		unknown := unknownKeys.FindStringSubmatch(text)
		if unknown == nil {
			say(b.lineNamed(text), text)
			continue
		}
		for _, key := range quoted.FindAllStringSubmatch(unknown[1], -1) {
			line, _ := b.line(key[1])
			say(line, strings.Replace(text, unknown[1], key[0], 1))
		}
	}
	slices.SortStableFunc(faults, func(f, g *Fault) int { return f.Line - g.Line })
	return faults
}

// split splits a list of faults. What looks like the next one may be part of a
// value that a fault quotes, whose end is missing where a value is cut off.
func split(d dialect, list string) (texts []string) {
	start := 0
	for _, at := range nextFault.FindAllStringSubmatchIndex(list, -1) {
		before := list[start:at[0]]
		inQuotes := strings.Count(before, `"`)%2 == 1 && !strings.Contains(before, "...")
		if inQuotes || at[2] >= 0 && !slices.Contains(d.keys, list[at[2]:at[3]]) {
			continue
		}
		texts = append(texts, list[start:at[0]])
		start = at[0] + len("; ")
	}
	return append(texts, list[start:])
}

// otherNames are what dialects call the keys that Lint names.
var otherNames = map[string][]string{
	"delays":    {"backoff.delays"},
	"backoff":   {"base_delay"},
	"max_delay": {"max_backoff_ms", "max_backoff"},
}

// lineNamed returns the line of the key that a text is about: it begins with
// the key, or has it in brackets. What is about the limits as a whole is at the
// first of them.
func (b *Block) lineNamed(text string) int {
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
