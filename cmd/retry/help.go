package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// schemaText is a copy of docs/policy.schema.json. A package can embed only files of its own
// directory.
//
//go:embed policy.schema.json
var schemaText []byte

// replaced maps words that are not commands to what does their work.
var replaced = map[string]string{
	"keys":    "help policy",
	"schema":  "lint -schema",
	"check":   "explain -policy FILE",
	"whatif":  "simulate FILE",
	"explore": "plan -page FILE",
}

// values explains the values of the keys.
const values = `
A duration is a text: "200ms", "1m30s".

A jitter is full (from 0 to the delay), equal (from half of the delay to the
delay), or a number from 0 to 1, which is a share of the delay: 0.2 is ±20 %.

A backoff is one of these. factor is at least 1. A factor that is left out is 2.

    {type: fixed, base: 1s}
    {type: linear, base: 1s}
    {type: exponential, base: 200ms, factor: 1.5}
    {type: fibonacci, base: 1s}
    {type: schedule, delays: [5m, 15m, 1h]}
`

// help prints the list of commands, the keys of a policy, or the help of one command.
func help(s *streams, args []string) int {
	switch {
	case len(args) == 0:
		printCommands(s.out)
		return ok
	case len(args) == 1 && args[0] == "policy":
		printKeys(s.out)
		return ok
	case len(args) == 1:
		if c := commandOf(args[0]); c != nil {
			return c.run(s, c, []string{"-h"})
		}
	}
	fmt.Fprintf(s.err, "retry help: there is no help about %q: write policy or a command\n",
		strings.Join(args, " "))
	return misuse
}

// printKeys prints a table of the keys of a policy.
func printKeys(w io.Writer) {
	var form struct{ Properties json.RawMessage }
	_ = json.Unmarshal(schemaText, &form)
	in := json.NewDecoder(bytes.NewReader(form.Properties)) // a Decoder keeps the order of the keys
	_, _ = in.Token()
	for in.More() {
		var rule struct{ Title, Description string }
		key, _ := in.Token()
		_ = in.Decode(&rule)
		fmt.Fprintf(w, "%-18s %s\n%-18s %s\n", key, rule.Title, "", rule.Description)
	}
	fmt.Fprint(w, values)
}
