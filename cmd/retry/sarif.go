package main

import (
	"encoding/json"
	"net/url"
	"path/filepath"

	"github.com/goretry/retry/cmd/retry/vet"
)

// writeSARIF writes the findings in SARIF. GitHub and other services show them as code scanning
// alerts.
func writeSARIF(s *streams, findings []vet.Finding) error {
	rules, results := []object{}, []object{}
	for _, a := range vet.Analyzers {
		rules = append(rules, object{
			"id":               a.Name,
			"helpUri":          a.URL,
			"shortDescription": object{"text": firstLine(a.Doc)},
		})
	}
	for _, f := range findings {
		region := object{"startLine": f.Line, "startColumn": f.Column}
		results = append(results, sarifResult(f.Check, "error", f.Message, f.File, region))
	}
	return json.NewEncoder(s.out).Encode(sarif(object{"name": "retry vet", "rules": rules}, results))
}

type object = map[string]any

// sarif returns a log in SARIF 2.1.0, a format that code scanners exchange.
func sarif(driver object, results []object) object {
	return object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"version": "2.1.0",
		"runs":    []object{{"tool": object{"driver": driver}, "results": results}},
	}
}

func sarifResult(rule, level, text, file string, region object) object {
	return object{"ruleId": rule, "level": level, "message": object{"text": text},
		"locations": []object{{"physicalLocation": object{
			"artifactLocation": object{"uri": (&url.URL{Path: filepath.ToSlash(file)}).String()},
			"region":           region,
		}}}}
}
