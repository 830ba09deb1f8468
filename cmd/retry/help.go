package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// schemaText is a copy of docs/policy.schema.json. It is in this directory because a package can
// embed only files of its own directory.
//
//go:embed policy.schema.json
var schemaText []byte

// valuesHelp is the last part of "retry help policy". It explains the values of the keys.
const valuesHelp = `
A duration is text, such as "200ms" or "1m30s".

A jitter is "full", "equal" or a number from 0 to 1. The backoff computes a
delay, and the jitter changes it at random. With "full", the result is between 0
and the computed delay. With "equal", the result is between half the computed
delay and the whole computed delay. The number 0.2 makes a delay up to 20 %
shorter or longer.

A backoff is one of these mappings. The factor is at least 1. The default factor
is 2.

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

func printCommands(w io.Writer) {
	fmt.Fprint(w, `Retry reads, checks and explains retry policies.

Usage: retry COMMAND [flags] ...

`)
	for _, c := range commands {
		fmt.Fprintf(w, "  %-9s %s\n", c.name, c.summary)
	}
	fmt.Fprintf(w, "  %-9s %s\n\n", "help", "explain a command, or print the keys of a policy")
	fmt.Fprint(w, `"retry help COMMAND" explains a command with an example. "retry help policy"
prints the keys of a policy. "retry version" prints the version.
`)
}

// printFlags prints the flags of a command, on lines of at most 80 characters.
func printFlags(w io.Writer, flags *flag.FlagSet) {
	title := "\nFlags:\n\n"
	flags.VisitAll(func(f *flag.Flag) {
		name, usage := flag.UnquoteUsage(f)
		fmt.Fprintf(w, "%s  -%s %s", title, f.Name, name)
		title = ""
		if f.DefValue != "" && f.DefValue != "false" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintln(w)
		printWrapped(w, usage, 7)
	})
}

// printWrapped wraps a text and indents each line. A line has at most 80 characters, including the
// indent.
func printWrapped(w io.Writer, text string, indent int) {
	width := 0
	for word := range strings.FieldsSeq(text) {
		n := 1 + utf8.RuneCountInString(word)
		if width > 0 && width+n > 80 {
			fmt.Fprintln(w)
			width = 0
		}
		if width == 0 {
			fmt.Fprintf(w, "%*s", indent, "")
			width = indent
		}
		fmt.Fprint(w, " ", word)
		width += n
	}
	fmt.Fprintln(w)
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
		fmt.Fprintf(w, "%-18s %s\n", key, rule.Title)
		printWrapped(w, rule.Description, 18)
	}
	fmt.Fprint(w, valuesHelp)
}
