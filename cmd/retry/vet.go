package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/goretry/retry/cmd/retry/vet"
)

var vetCommand = &command{
	name: "vet", args: "[flags] [PACKAGE...]", run: runVet,
	summary: "report mistakes in Go code that retries, with file and line",
	doc: `
Vet reports mistakes in the use of the library, such as a call that ignores the
context of its attempt, with file and line. It runs "go vet" with its own
checks, and accepts the flags and packages of go vet. The exit status is 1 if
there is a mistake, or if a package does not compile.

    retry vet ./...
    retry vet -fix ./...
    retry vet -outerctx=false ./...

docs/vet.md in the library's repository shows each mistake and its fix.
`,
}

func runVet(s *streams, c *command, args []string) int {
	if slices.ContainsFunc(args, func(arg string) bool { return slices.Contains([]string{"-h", "-help", "--help"}, arg) }) {
		_, status, _ := c.parse(s, vetFlags(c.name), []string{"-h"})
		return status
	}
	self, err := os.Executable()
	if err != nil {
		return c.failed(s, err)
	}
	// The go command has flags that vetFlags leaves out, such as -tags.
	goVet := exec.CommandContext(s.ctx, "go", append([]string{"vet", "-vettool=" + self}, args...)...)
	goVet.Stdin, goVet.Stdout, goVet.Stderr = s.in, s.out, s.err
	err = goVet.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return c.failed(s, err)
	}
	return ok
}

// vetFlags are the most useful flags of go vet, for the help.
func vetFlags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.Bool("fix", false, "apply the fixes that are safe, and report nothing")
	flags.Bool("diff", false, "with -fix, print the fixes as a diff instead of applying them")
	flags.Bool("json", false, "write JSON")
	flags.String("tags", "", "the build `tags` to use")
	for _, analyzer := range vet.Analyzers {
		doc, _, _ := strings.Cut(analyzer.Doc, "\n")
		flags.Bool(analyzer.Name, false, doc+"; =false turns it off, and naming checks turns the others off")
	}
	return flags
}

// calledByVet reports whether go vet runs this program as its tool. It passes
// flags and the configuration file of one package, or asks for the tool's flags
// or version.
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
	return strings.HasSuffix(args[last], ".cfg") || args[last] == "-flags" || strings.HasPrefix(args[last], "-V=")
}

// serveVet does what go vet has asked for, and exits.
func serveVet() { unitchecker.Main(vet.Analyzers...) }
