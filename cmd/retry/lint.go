package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goretry/retry/cmd/retry/internal/policyfile"
)

var lintCommand = &command{
	name: "lint", args: "[flags] FILE...", run: lint,
	summary: "report mistakes in policy files, with file and line",
	doc: `
Lint reports mistakes in the policies of YAML and JSON files. It also reports
settings that are valid but probably unintended. Each report has the file and
the line. The exit status is 1 if lint finds a mistake or such a setting. The
last line says how many policies lint found.

    retry lint config/*.yaml
    retry lint -at 'services.*.retry' -format github config/

In a directory, lint reads every .yaml, .yml and .json file, and follows links.
With -at, it checks in each file only what is at the given path of keys, such as
services.payments.retry. In the path, * stands for every key. Without -at, it
checks the settings of systems such as Envoy, the values of the keys "retry" and
"work_config", and each file that is one policy as a whole. If a file in a
directory does not parse, lint reports the file only if it may contain a policy.
It counts the other files that do not parse.

Lint expands patterns such as *.yaml if the shell has not expanded them. In a
file for "retry simulate", lint checks the policy of each call. It also reports
calls whose attempts multiply, because two layers of services both retry.

With -schema, lint prints a JSON Schema. Editors use it to complete and check
keys.
`,
}

func lint(s *streams, c *command, args []string) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	var from source
	from.define(flags)
	print := printText
	const formats = "the `form` of the report: text, json, or github for annotations (default text)"
	flags.Func("format", formats, func(text string) error {
		if print = reportFormats[text]; print == nil {
			return errors.New("write text, json or github")
		}
		return nil
	})
	schema := flags.Bool("schema", false,
		"print the JSON Schema (draft 2020-12) of a policy, for editors")
	args, status, done := c.parse(s, flags, args)
	if done {
		return status
	}
	if *schema {
		fmt.Fprintf(s.out, "%s", schemaText)
		return ok
	}
	if len(args) == 0 {
		return c.misused(s, "there is no file: write files, directories, or - for standard input")
	}
	files, err := expand(args)
	if err != nil {
		return c.failed(s, err)
	}

	r := report{Without: []string{}, Unparsed: []string{}, Faults: []*policyfile.Fault{}, at: from.at}
	for _, file := range files {
		if err := r.add(s, file, from); err != nil {
			status = c.failed(s, err)
		}
	}
	if slices.ContainsFunc(r.Faults, func(f *policyfile.Fault) bool { return !f.Note }) {
		status = max(status, found)
	}
	if r.Policies == 0 && status == ok && len(r.Faults) == 0 {
		problem := "there is no policy in these files: write the path to the policy with -at, " +
			"and its dialect with -from"
		if r.hint != "" {
			problem = "there is no policy in the usual places of these files: try -at " + r.hint
		}
		return c.failed(s, errors.New(problem))
	}
	print(s.out, &r)
	return status
}

// policyExts are the extensions of the files that `lint` reads in a directory.
var policyExts = []string{".yaml", ".yml", ".json"}

// A lintedFile is a file to lint.
type lintedFile struct {
	name   string
	walked bool // whether `lint` found the file in a directory; such a file need not contain a policy
}

// expand returns the files that the arguments name, without duplicates.
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
			default: // a pattern does not select devices and pipes
				names = slices.DeleteFunc(matches, func(name string) bool {
					info, err := os.Stat(name)
					return err == nil && !info.IsDir() && !info.Mode().IsRegular()
				})
			}
		}
		for _, name := range names {
			if name == "-" {
				add(name, false)
				continue
			}
			info, err := os.Stat(name)
			switch {
			case err != nil:
				return nil, err
			case info.IsDir():
				err = walk(filepath.Clean(name), map[string]bool{}, add)
			case isPipe(name, info):
				err = fmt.Errorf("%s is a pipe, which may never end: "+
					"write - and pass the pipe as standard input", name)
			default:
				add(name, false)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}

// walk adds the files in a directory and in its subdirectories. It follows links, but enters each
// directory only once. It adds only regular files, because opening a pipe could take forever.
func walk(dir string, entered map[string]bool, add func(name string, walked bool)) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if entered[real] {
		return nil
	}
	entered[real] = true
	inside, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range inside {
		name := filepath.Join(dir, entry.Name())
		info, err := os.Stat(name)
		switch {
		case err != nil && entry.Type()&fs.ModeSymlink != 0: // the target of the link is missing
		case err != nil:
			return err
		case info.IsDir() && !strings.HasPrefix(entry.Name(), "."):
			if err := walk(name, entered, add); err != nil {
				return err
			}
		case info.Mode().IsRegular() && slices.Contains(policyExts, filepath.Ext(name)):
			add(name, true)
		}
	}
	return nil
}
