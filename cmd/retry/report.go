package main

import (
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goretry/retry/cmd/retry/internal/policyfile"
)

// reportFormats are the forms in which lint prints its report.
var reportFormats = map[string]func(io.Writer, *report){"text": printText, "json": printReport, "sarif": printSARIF, "github": printGitHub}

func printText(w io.Writer, r *report) {
	for _, fault := range r.Faults {
		fmt.Fprintln(w, fault)
	}
	fmt.Fprintln(w, r.summary())
}

func printReport(w io.Writer, r *report) { writeJSON(w, r) }

func printGitHub(w io.Writer, r *report) {
	for _, f := range r.Faults {
		level := "error"
		if f.Lint {
			level = "warning"
		}
		if f.Note {
			level = "notice"
		}
		annotate(w, level, f.File, fmt.Sprintf("line=%d", f.Line), policyfile.Visible(f.Text))
	}
	fmt.Fprintln(w, r.summary())
}

// annotate prints an annotation for GitHub, which percent-decodes it, so the
// characters that end a part of it must be encoded.
func annotate(w io.Writer, level, file, place, text string) {
	file = control.ReplaceAllString(githubProperty.Replace(filepath.ToSlash(file)), "?")
	fmt.Fprintf(w, "::%s file=%s,%s::%s\n", level, file, place, githubData.Replace(text))
}

var (
	githubData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	control        = regexp.MustCompile(`\pC`)
)

type object = map[string]any

func printSARIF(w io.Writer, r *report) {
	results := []object{}
	for _, f := range r.Faults {
		rule, level := "invalid", "error"
		if f.Lint {
			rule, level = "unintended", "warning"
		}
		if f.Note {
			rule, level = "unread", "note"
		}
		results = append(results, sarifResult(rule, level, f.Text, f.File, object{"startLine": f.Line}))
	}
	rules := []object{
		{"id": "invalid", "shortDescription": object{"text": "The policy is invalid."}},
		{"id": "unread", "shortDescription": object{"text": "The settings of this system are not read."}},
		{"id": "unintended", "shortDescription": object{"text": "The policy is valid, but probably not what is meant."}},
	}
	driver := object{"name": "retry", "version": version(), "informationUri": "https://github.com/goretry/retry", "rules": rules}
	writeJSON(w, sarif(driver, results))
}

// sarif returns a log in SARIF 2.1.0, which code scanners exchange.
func sarif(driver object, results []object) object {
	return object{"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{"tool": object{"driver": driver}, "results": results}}}
}

func sarifResult(rule, level, text, file string, region object) object {
	return object{"ruleId": rule, "level": level, "message": object{"text": text},
		"locations": []object{{"physicalLocation": object{
			"artifactLocation": object{"uri": (&url.URL{Path: filepath.ToSlash(file)}).String()},
			"region":           region,
		}}}}
}
