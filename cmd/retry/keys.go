package main

import (
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"

	"github.com/goretry/retry/internal/strict"
)

var keysCommand = &command{
	name: "keys", args: "", run: keys,
	summary: "print the keys of a policy, with their values",
	doc: `
Keys prints a table of what a policy in a file can say.

    retry keys
`,
}

var schemaCommand = &command{
	name: "schema", args: "", run: schema,
	summary: "print the JSON Schema of a policy, for editors",
	doc: `
Schema prints the JSON Schema (draft 2020-12) of a policy in a file. With it an
editor completes the keys, and marks most faults while you type.

    retry schema > policy.schema.json

Editors with the YAML language server look for it in the first line of a file:

    # yaml-language-server: $schema=policy.schema.json
`,
}

// schemaText is docs/policy.schema.json, which a package cannot embed from there.
//
//go:embed policy.schema.json
var schemaText []byte

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

func keys(s *streams, c *command, args []string) int {
	return c.alone(s, args, func() {
		var form struct{ Properties json.RawMessage }
		_ = json.Unmarshal(schemaText, &form)
		for key, value := range strict.Members(form.Properties) { // in order
			var rule struct{ Title, Description string }
			_ = json.Unmarshal(value, &rule)
			fmt.Fprintf(s.out, "%-18s %s\n%-18s %s\n", key, rule.Title, "", rule.Description)
		}
		fmt.Fprint(s.out, values)
	})
}

func schema(s *streams, c *command, args []string) int {
	return c.alone(s, args, func() { s.out.Write(schemaText) })
}

// alone runs a command that takes no arguments.
func (c *command) alone(s *streams, args []string, print func()) int {
	rest, status, done := c.parse(s, flag.NewFlagSet(c.name, flag.ContinueOnError), args)
	switch {
	case done:
	case len(rest) > 0:
		return c.misused(s, "there is nothing to read: write no file")
	default:
		print()
	}
	return status
}
