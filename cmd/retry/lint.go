package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goretry/retry/cmd/retry/internal/policyfile"
)

var lintCommand = &command{
	name: "lint", args: "[flags] FILE...", run: lint,
	summary: "report every fault in policy files, with file and line",
	doc: `
Lint reports every fault of the policies in YAML and JSON files, and settings
that are valid but probably unintended, each with its file and line. The exit
status is 1 if there is any.

    retry lint config/*.yaml
    retry lint -at 'services.*.retry' -format github config/

A directory stands for all .yaml, .yml and .json files below it that have a
policy at the path of -at, or in one of the usual places. In a path, * stands
for every key. Lint expands patterns that the shell has not expanded.
`,
}

func lint(s *streams, c *command, args []string) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	var from source
	from.define(flags)
	format := flags.String("format", "text", "the `form` of the report: text, or github for annotations")
	args, status, done := c.parse(s, flags, args)
	if done {
		return status
	}
	if err := from.check(); err != nil {
		return c.misused(s, err)
	}
	if *format != "text" && *format != "github" {
		return c.misused(s, fmt.Sprintf("-format is %q: write text or github", *format))
	}
	if len(args) == 0 {
		return c.misused(s, "there is no file: write files, directories, or - for standard input")
	}
	files, err := expand(args)
	if err != nil {
		return c.failed(s, err)
	}

	policies := 0
	for _, file := range files {
		faults, n, err := lintFile(s, file, from)
		if err != nil {
			status = c.failed(s, err)
			continue
		}
		policies += n
		for _, fault := range faults {
			printFault(s.out, fault, *format)
			status = max(status, found)
		}
	}
	if policies == 0 && status == ok {
		return c.failed(s, errors.New("there is no policy in these files: say where with -at, and how it is written with -from"))
	}
	return status
}

// lintFile returns the faults of the policies in a file, and how many policies
// there are. It returns an error only if the file cannot be read.
func lintFile(s *streams, f lintedFile, from source) (faults []*policyfile.Fault, policies int, err error) {
	file, err := s.readFile(f.name)
	var unparsed *policyfile.Fault
	if errors.As(err, &unparsed) {
		return []*policyfile.Fault{unparsed}, 1, nil
	}
	if err != nil {
		return nil, 0, err
	}
	for _, block := range file.Find(from.at) {
		if f.walked && from.at == "" && !block.Known() {
			continue
		}
		policies++
		p, _, faulty := block.Read(from.from)
		faults = append(append(faults, faulty...), block.Lint(p)...)
	}
	if policies == 0 && !f.walked {
		at := "in it"
		if from.at != "" {
			at = "at " + from.at
		}
		faults = append(faults, &policyfile.Fault{File: file.Name, Line: 1, Text: "there is no policy " + at})
	}
	return faults, policies, nil
}

// printFault prints a fault as compilers do, or as a GitHub annotation.
func printFault(w io.Writer, f *policyfile.Fault, format string) {
	if format == "text" {
		fmt.Fprintln(w, f)
		return
	}
	level := "error"
	if f.Lint {
		level = "warning"
	}
	fmt.Fprintf(w, "::%s file=%s,line=%d::%s\n", level, githubProperty.Replace(filepath.ToSlash(f.File)), f.Line, githubData.Replace(f.Text))
}

// GitHub percent-decodes workflow commands, so the characters that end a part
// of one must be encoded.
var (
	githubData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// A lintedFile is a file to lint.
type lintedFile struct {
	name   string
	walked bool // found in a directory, so it may be something else
}

// expand returns the files that the arguments stand for, without duplicates.
func expand(args []string) (files []lintedFile, err error) {
	add := func(name string, walked bool) {
		if !slices.ContainsFunc(files, func(f lintedFile) bool { return f.name == name }) {
			files = append(files, lintedFile{name, walked})
		}
	}
	for _, arg := range args {
		names := []string{arg}
		if strings.ContainsAny(arg, "*?[") {
			switch matches, err := filepath.Glob(arg); {
			case err != nil:
				return nil, fmt.Errorf("%s: %w", arg, err)
			case len(matches) == 0:
				return nil, fmt.Errorf("no file matches %s", arg)
			default:
				names = matches
			}
		}
		for _, name := range names {
			if name == "-" {
				add(name, false)
				continue
			}
			err := filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
				switch {
				case err != nil:
					return err
				case entry.IsDir() && path != name && strings.HasPrefix(entry.Name(), "."):
					return fs.SkipDir
				case path == name && !entry.IsDir():
					add(path, false)
				case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
					add(path, true)
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}
