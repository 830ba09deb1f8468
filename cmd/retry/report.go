package main

import (
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goretry/retry/cmd/retry/internal/printable"
)

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
// an annotation. So annotate percent-encodes these characters, and GitHub decodes them.
func annotate(w io.Writer, level, file, place, text string) {
	file = control.ReplaceAllString(githubProperty.Replace(filepath.ToSlash(file)), "?")
	fmt.Fprintf(w, "::%s file=%s,%s::%s\n", level, file, place, githubData.Replace(text))
}

var (
	githubData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	control        = regexp.MustCompile(`\pC`)
)
