// Retry is a tool for people who write, review and operate retry policies:
//
//	retry plan policy.yaml        what a policy will do
//	retry lint config/            mistakes in policy files, with file and line
//	retry explain retries.log     when calls were retried, and why
//	retry simulate system.yaml    whether a system comes back after an outage
//	retry vet ./...               mistakes in Go code that retries
//
// "retry help" lists the commands, "retry help policy" lists the keys of a policy, and
// "retry help COMMAND" explains a command.
//
// The exit status is 0 if nothing is wrong. It is 1 if a command found something wrong, or if a
// file does not parse. It is 2 if a command was used wrongly, or if a file cannot be opened.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/goretry/retry/cmd/retry/internal/policyfile"
	"github.com/goretry/retry/cmd/retry/internal/printable"
)

const (
	ok     = 0
	found  = 1 // the command found something wrong, or a file does not parse
	misuse = 2 // the command was used wrongly, or a file cannot be opened
)

func main() {
	if calledByVet(os.Args[1:]) {
		serveVet()
	}
	debug.SetGCPercent(400) // commands use little memory, and rarer collections save time
	os.Exit(run(newStreams(os.Stdin, os.Stdout, os.Stderr), os.Args[1:]))
}

// streams are the inputs and outputs of a command.
type streams struct {
	ctx      context.Context // `explain` and `vet` stop when ctx is done
	in       io.Reader
	out, err io.Writer

	typed bool // whether the input is a terminal
	shown bool // whether the output for errors is a terminal
}

func newStreams(in, out, err *os.File) *streams {
	return &streams{
		ctx: context.Background(), in: in, out: out, err: err,
		typed: isTerminal(in),
		shown: isTerminal(err),
	}
}

func isTerminal(file *os.File) bool { return term.IsTerminal(int(file.Fd())) }

// A command is one of the commands of the tool retry, such as `plan`.
type command struct {
	name, args, summary string
	doc                 string // the help of the command, with an example

	// run runs the command, and returns the exit status.
	run func(s *streams, c *command, args []string) int
}

var commands []*command

// init fills the list of commands. A declaration with all commands in it would be an initialization
// cycle, because the functions of the commands use the list.
func init() {
	commands = []*command{planCommand, lintCommand, explainCommand, simulateCommand, vetCommand}
}

// commandOf returns the command with this name. It returns nil if there is none.
func commandOf(name string) *command {
	i := slices.IndexFunc(commands, func(c *command) bool { return c.name == name })
	if i < 0 {
		return nil
	}
	return commands[i]
}

// replaced maps each word that users may wrongly try as a command, such as `schema`, to the right
// command.
var replaced = map[string]string{
	"keys":    "help policy",
	"schema":  "lint -schema",
	"check":   "explain -policy FILE",
	"whatif":  "simulate FILE",
	"explore": "plan -page FILE",
}

// run runs the command that args name, and returns the exit status.
func run(s *streams, args []string) int {
	if len(args) == 0 {
		printCommands(s.err)
		return misuse
	}
	out := &output{Writer: s.out}
	s.out = out
	status := dispatch(s, args)
	if out.err != nil && status != misuse {
		return (&command{name: args[0]}).failed(s, out.err)
	}
	return status
}

func dispatch(s *streams, args []string) int {
	switch name := args[0]; name {
	case "help", "-h", "-help", "--help":
		return help(s, args[1:])
	case "version", "-version", "--version":
		fmt.Fprintln(s.out, "retry", version())
		return ok
	default:
		if now := replaced[name]; now != "" {
			fmt.Fprintf(s.err, "retry: there is no command %s: write retry %s\n", name, now)
			return misuse
		}
		c := commandOf(name)
		if c == nil {
			fmt.Fprintf(s.err, "retry: unknown command %q\n\n", name)
			printCommands(s.err)
			return misuse
		}
		return c.run(s, c, args[1:])
	}
}

// An output remembers the first error of its Writer, so that a command need not check the error
// of each write.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// writeJSON writes v as indented JSON.
func writeJSON(w io.Writer, v any) {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the function `run` reports an error of the writer
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// parse parses the flags in the parameter `args`, which may come before or after the other
// arguments. The result `rest` contains the other arguments. If the result `done` is true, the user
// wrote -h or used the command wrongly, so the command must return the result `status` at once.
func (c *command) parse(
	s *streams, flags *flag.FlagSet, args []string,
) (rest []string, status int, done bool) {
	flags.Usage = func() {}
	flags.SetOutput(io.Discard)
	for {
		switch err := flags.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			fmt.Fprintf(s.out, "Usage: %s\n%s", c.usage(), c.doc)
			printFlags(s.out, flags)
			return nil, ok, true
		case err != nil:
			return nil, c.misused(s, withHint(flags, err)), true
		}
		if flags.NArg() == 0 {
			return rest, ok, false
		}
		rest, args = append(rest, flags.Arg(0)), flags.Args()[1:]
	}
}

var parseError = regexp.MustCompile(`for flag -(\w+): parse error$`)

// withHint returns the text of an error of package flag. If the value of a flag does not parse, the
// text says what to write instead.
func withHint(flags *flag.FlagSet, err error) string {
	text := err.Error()
	name := parseError.FindStringSubmatch(text)
	if name == nil {
		return text
	}
	write := "write a whole number"
	switch flags.Lookup(name[1]).Value.(flag.Getter).Get().(type) {
	case float64:
		write = "write a number, such as 0.1"
	case time.Duration:
		write = "write a duration, such as 500ms or 1m30s"
	}
	return strings.TrimSuffix(text, "parse error") + write
}

func (c *command) usage() string { return strings.TrimSpace("retry " + c.name + " " + c.args) }

// misused prints a mistake in the usage of a command, and returns the exit status.
func (c *command) misused(s *streams, problem any) int {
	fmt.Fprintf(s.err, "retry %s: %v\nUsage: %s (-h explains it)\n", c.name, problem, c.usage())
	return misuse
}

// failed prints an error, and returns the exit status for it.
func (c *command) failed(s *streams, err error) int {
	if fault := new(policyfile.Fault); errors.As(err, &fault) {
		fmt.Fprintln(s.err, err)
		return found
	}
	fmt.Fprintf(s.err, "retry %s: %s\n", c.name, printable.Line(err.Error()))
	return misuse
}
