package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/goretry/retry/cmd/retry/vet"
)

var vetCommand = &command{
	name: "vet", args: "[flags] [PACKAGE...]", run: runVet,
	summary: "report mistakes in Go code that retries, with file and line",
	doc: `
Vet reports mistakes in Go code that uses the library, with file and line. For
example, it reports a retried function that ignores the context of its attempt.
Write a PACKAGE as for the go command: ./... means all packages. The last line
says how many packages and calls vet has checked. The exit status is 1 if vet
finds a mistake, or if a package does not compile.

    retry vet ./...
    retry vet -format github ./...
    retry vet -fix ./...
    retry vet -outerctx=false ./...

Each check has a flag with its name. For example, -outerctx=false disables the
check outerctx, and -outerctx runs only this check. To silence a check on one
line, write a comment on this line or on the line above. The comment contains
the name of the check and a reason, for example:

    //retry:vet-ignore outerctx the request must outlive its attempt

In the library's repository, docs/vet.md shows each mistake and its fix.
`,
}

func runVet(s *streams, c *command, args []string) int {
	flags, chosen := vetFlags(c.name)
	patterns, status, done := c.parse(s, flags, args)
	if done {
		return status
	}
	format := flags.Lookup("format").Value.String()
	if isSet(flags, "fix") || isSet(flags, "diff") {
		if format != "text" {
			return c.misused(s, fmt.Sprintf(
				"-format is %q, but -fix and -diff report nothing: leave out -format, or -fix and -diff",
				format))
		}
		return goVet(s, c, flags, patterns)
	}
	if isSet(flags, "json") {
		format = "json"
	}
	write := vetFormats[format]
	if write == nil {
		return c.misused(s, fmt.Sprintf("-format is %q: write text, github, json or sarif", format))
	}
	findings, err := vet.Find(s.ctx, patterns, flags.Lookup("tags").Value.String(), chosen())
	if err != nil {
		printLines(s.err, "retry vet: "+err.Error()+"\n")
		return found
	}
	if err := write(s, findings.List); err != nil {
		return c.failed(s, err)
	}
	fmt.Fprintln(s.err, findings)
	if len(findings.List) > 0 {
		return found
	}
	return ok
}

// isSet reports whether a boolean flag is true.
func isSet(flags *flag.FlagSet, name string) bool {
	return flags.Lookup(name).Value.String() == "true"
}

// goVet runs `go vet` with this program as its tool, because `go vet` can apply fixes. It turns off
// -trimpath, which could mix up two checkouts of a module: `go vet` keeps fixed files in the build
// cache, and with -trimpath the key of a fixed file in this cache is its import path. So `go vet`
// could write a fixed file of the other checkout. Without -trimpath, the key is the directory of
// the package.
func goVet(s *streams, c *command, flags *flag.FlagSet, patterns []string) int {
	self, err := os.Executable()
	if err == nil {
		err = vet.InModule(s.ctx, patterns, flags.Lookup("tags").Value.String())
	}
	if err != nil {
		return c.failed(s, err)
	}
	args := []string{"vet", "-vettool=" + self, "-trimpath=false"}
	flags.Visit(func(f *flag.Flag) { args = append(args, "-"+f.Name+"="+f.Value.String()) })
	goVet := exec.CommandContext(s.ctx, "go", append(args, patterns...)...)
	var out, errs bytes.Buffer
	goVet.Stdin, goVet.Stdout, goVet.Stderr = s.in, &out, &errs
	err = goVet.Run()
	printLines(s.out, out.String())
	printLines(s.err, errs.String())
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return c.failed(s, err)
	}
	return ok
}

// printLines prints the output of another program. It replaces characters that a terminal or a CI
// service would treat as a command.
func printLines(w io.Writer, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintln(w, vet.Printable(strings.TrimSuffix(line, "\n")))
	}
}

// vetFormats maps each value of -format to the function that writes findings in this form.
var vetFormats = map[string]func(*streams, []vet.Finding) error{
	"text": func(s *streams, findings []vet.Finding) error {
		for _, f := range findings {
			fmt.Fprintf(s.err, "%s:%d:%d: %s\n", f.File, f.Line, f.Column, f.Message)
		}
		return nil
	},
	"github": func(s *streams, findings []vet.Finding) error {
		for _, f := range findings {
			annotate(s.out, "error", f.File, fmt.Sprintf("line=%d,col=%d", f.Line, f.Column), f.Message)
		}
		return nil
	},
	"json": func(s *streams, findings []vet.Finding) error {
		encoder := json.NewEncoder(s.out)
		for _, f := range findings {
			if err := encoder.Encode(f); err != nil {
				return err
			}
		}
		return nil
	},
	"sarif": writeSARIF,
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// vetFlags returns the flags of `vet`, and a function that returns the checks that the flags
// choose.
func vetFlags(name string) (*flag.FlagSet, func() []*analysis.Analyzer) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.Bool("fix", false, "apply the safe fixes instead of reporting mistakes")
	flags.Bool("diff", false, "with -fix, print the fixes as a diff instead of applying them")
	flags.String("format", "text", "the `form` of the report: text, github, json or sarif")
	flags.Bool("json", false, "write each finding as one line of JSON")
	flags.String("tags", "", "the build `tags` to use")
	for _, analyzer := range vet.Analyzers {
		flags.Bool(analyzer.Name, false, firstLine(analyzer.Doc))
	}
	return flags, func() []*analysis.Analyzer {
		set := map[string]string{}
		flags.Visit(func(f *flag.Flag) { set[f.Name] = f.Value.String() })
		named := func(a *analysis.Analyzer) bool { return set[a.Name] == "true" }
		alone := slices.ContainsFunc(vet.Analyzers, named)
		return slices.DeleteFunc(slices.Clone(vet.Analyzers), func(a *analysis.Analyzer) bool {
			return set[a.Name] == "false" || alone && !named(a)
		})
	}
}

// calledByVet reports whether `go vet` runs this program as its tool. `go vet` passes flags and the
// configuration file of a package. Before that, it asks for the flags and the version of the tool.
func calledByVet(args []string) bool {
	if len(args) == 0 {
		return false
	}
	last := len(args) - 1
	for _, arg := range args[:last] {
		if !strings.HasPrefix(arg, "-") {
			return false
		}
	}
	return strings.HasSuffix(args[last], ".cfg") ||
		args[last] == "-flags" || strings.HasPrefix(args[last], "-V=")
}

// serveVet does what `go vet` asks for, and exits.
func serveVet() { unitchecker.Main(vet.Analyzers...) }
