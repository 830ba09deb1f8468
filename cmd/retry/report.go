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

// printGitHub prints annotations for GitHub, which percent-decodes them, so the
// characters that end a part of one must be encoded.
func printGitHub(w io.Writer, r *report) {
	for _, f := range r.Faults {
		level := "error"
		if f.Lint {
			level = "warning"
		}
		fmt.Fprintf(w, "::%s file=%s,line=%d::%s\n", level, control.ReplaceAllString(githubProperty.Replace(filepath.ToSlash(f.File)), "?"), f.Line, githubData.Replace(policyfile.Visible(f.Text)))
	}
	fmt.Fprintln(w, r.summary())
}

var (
	githubData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	control        = regexp.MustCompile(`\pC`)
)

type object = map[string]any

// printSARIF prints SARIF 2.1.0, which code scanners exchange.
func printSARIF(w io.Writer, r *report) {
	results := []object{}
	for _, f := range r.Faults {
		rule, level := "invalid", "error"
		if f.Lint {
			rule, level = "unintended", "warning"
		}
		results = append(results, object{"ruleId": rule, "level": level, "message": object{"text": f.Text},
			"locations": []object{{"physicalLocation": object{
				"artifactLocation": object{"uri": (&url.URL{Path: filepath.ToSlash(f.File)}).String()},
				"region":           object{"startLine": f.Line},
			}}}})
	}
	rules := []object{
		{"id": "invalid", "shortDescription": object{"text": "The policy is invalid."}},
		{"id": "unintended", "shortDescription": object{"text": "The policy is valid, but probably not what is meant."}},
	}
	writeJSON(w, object{"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": []object{{
		"tool":    object{"driver": object{"name": "retry", "version": version(), "informationUri": "https://github.com/goretry/retry", "rules": rules}},
		"results": results,
	}}})
}
