package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// schemaText is docs/policy.schema.json, which a package cannot embed from there.
//
//go:embed policy.schema.json
var schemaText []byte

// replaced are the words of old commands, and what to write now.
var replaced = map[string]string{
	"keys": "help policy", "schema": "lint -schema", "check": "explain -policy FILE", "whatif": "simulate FILE", "explore": "plan -page FILE",
}

// values says how the values of the keys are written.
const values = `
A duration is text: "200ms", "1m30s". A jitter is full (from nothing to the
delay), equal (from half of it), or a number from 0 to 1, a share of the delay:
0.2 is ±20 %. A backoff is one of these, where factor is at least 1, and 2 if it
is left out:

    {type: fixed, base: 1s}
    {type: linear, base: 1s}
    {type: exponential, base: 200ms, factor: 1.5}
    {type: fibonacci, base: 1s}
    {type: schedule, delays: [5m, 15m, 1h]}
`

// help prints the commands, the keys of a policy, or what a command does.
func help(s *streams, args []string) int {
	switch {
	case len(args) == 0:
		printCommands(s.out)
		return ok
	case len(args) == 1 && args[0] == "policy":
		printKeys(s.out)
		return ok
	case len(args) == 1:
		if i := slices.IndexFunc(commands, func(c *command) bool { return c.name == args[0] }); i >= 0 {
			return commands[i].run(s, commands[i], []string{"-h"})
		}
	}
	fmt.Fprintf(s.err, "retry help: there is nothing about %q: write policy or a command\n", strings.Join(args, " "))
	return misuse
}

// printKeys prints a table of what a policy in a file can say.
func printKeys(w io.Writer) {
	var form struct{ Properties json.RawMessage }
	_ = json.Unmarshal(schemaText, &form)
	in := json.NewDecoder(bytes.NewReader(form.Properties)) // which keeps their order
	_, _ = in.Token()
	for in.More() {
		var rule struct{ Title, Description string }
		key, _ := in.Token()
		_ = in.Decode(&rule)
		fmt.Fprintf(w, "%-18s %s\n%-18s %s\n", key, rule.Title, "", rule.Description)
	}
	fmt.Fprint(w, values)
}
