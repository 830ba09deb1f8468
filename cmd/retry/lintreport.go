package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goretry/retry/cmd/retry/internal/policyfile"
	"github.com/goretry/retry/cmd/retry/internal/printable"
)

// A report contains everything that `lint` has found.
type report struct {
	Policies int                 `json:"policies"`
	Files    int                 `json:"files"`
	Without  []string            `json:"without"`  // files without a policy
	Unparsed []string            `json:"unparsed"` // files that do not parse: probably not policies
	Faults   []*policyfile.Fault `json:"faults"`

	hint string // the path to a policy outside of the usual places; "" if there is none
	at   string // the value of -at
}

// add lints a file. It returns an error only if the file cannot be read.
func (r *report) add(s *streams, f lintedFile, from source) error {
	r.Files++
	title, data, err := s.read(f.name)
	if err != nil {
		return err
	}
	file, err := policyfile.Parse(title, data)
	var unparsed *policyfile.Fault
	if errors.As(err, &unparsed) {
		if f.walked && !policyfile.MayHold(data) {
			r.Unparsed = append(r.Unparsed, f.name)
			return nil
		}
		r.Faults = append(r.Faults, unparsed)
		r.Policies++
		return nil
	}
	var known, unknown []policyfile.Block
	for _, block := range file.Find(from.at) {
		if from.at != "" || block.Known() || block.IsSystem() {
			known = append(known, block)
		} else if unknown = append(unknown, block); r.hint == "" {
			r.hint = block.Hint()
		}
	}
	noted := len(r.Faults)
	if len(known) == 0 {
		for _, block := range unknown {
			if note := block.Unread(); note != nil {
				r.Faults = append(r.Faults, note)
			}
		}
	}
	noted = len(r.Faults) - noted
	if len(known) == 0 && noted == 0 && !f.walked {
		// The user named this file, so its first unknown block is linted as if it were a policy.
		known = unknown[:min(1, len(unknown))]
	}
	for _, block := range known {
		if from.from == "" && block.IsSystem() {
			system, faulty := block.System()
			policies, more := block.LintSystem(system)
			r.Faults = append(append(r.Faults, faulty...), more...)
			r.Policies += max(1, policies)
			continue
		}
		r.Policies++
		p, _, faulty := block.Read(from.from)
		r.Faults = append(append(r.Faults, faulty...), block.Lint(p)...)
	}
	if len(known) > 0 {
		return nil
	}
	r.Without = append(r.Without, file.Name)
	if !f.walked && noted == 0 {
		at := "in this file"
		if from.at != "" {
			at = "at " + from.at
		}
		r.Faults = append(r.Faults, &policyfile.Fault{
			File: file.Name,
			Line: 1,
			Code: policyfile.NoPolicy,
			Text: "there is no policy " + at,
		})
	}
	return nil
}

// summary says how many policies and files `lint` has checked, and which files have no policy.
func (r *report) summary() string {
	text := counted(r.Policies, "policy") + " in " + counted(r.Files, "file")
	if n := len(r.Unparsed); n == 1 {
		text += "; 1 file does not parse"
	} else if n > 1 {
		text += "; " + counted(n, "file") + " do not parse"
	}
	if len(r.Without) == 0 {
		return text
	}
	where, have := "in the usual places", "have"
	if r.at != "" {
		where = "at " + r.at
	}
	if len(r.Without) == 1 {
		have = "has"
	}
	text += fmt.Sprintf("; %s %s no policy %s", counted(len(r.Without), "file"), have, where)
	if r.hint != "" || r.at == "" {
		text += strings.TrimSuffix(": try -at "+printable.Line(r.hint), " ")
	}
	return text
}

// reportFormats maps each value of -format to the function that prints a report in this form.
var reportFormats = map[string]func(io.Writer, *report){
	"text":   printText,
	"json":   func(w io.Writer, r *report) { writeJSON(w, r) },
	"github": printGitHub,
}

func printText(w io.Writer, r *report) {
	for _, fault := range r.Faults {
		fmt.Fprintln(w, fault)
	}
	fmt.Fprintln(w, r.summary())
}

func printGitHub(w io.Writer, r *report) {
	for _, f := range r.Faults {
		level := "error"
		if f.Lint {
			level = "warning"
		}
		if f.Note {
			level = "notice"
		}
		annotate(w, level, f.File, fmt.Sprintf("line=%d", f.Line), printable.Line(f.Text))
	}
	fmt.Fprintln(w, r.summary())
}

// annotate prints an annotation for GitHub. Some characters, such as a colon, would end a part of
// an annotation. So `annotate` percent-encodes these characters, and GitHub decodes them.
func annotate(w io.Writer, level, file, place, text string) {
	file = control.ReplaceAllString(githubProperty.Replace(filepath.ToSlash(file)), "?")
	fmt.Fprintf(w, "::%s file=%s,%s::%s\n", level, file, place, githubData.Replace(text))
}

var (
	githubData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	control        = regexp.MustCompile(`\pC`)
)
