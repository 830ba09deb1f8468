package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
)

// maxFile is the largest size of a file with policies, in bytes.
const maxFile = 16 << 20

// open opens a file. The name "-" stands for standard input.
func (s *streams) open(name string) (title string, file io.ReadCloser, err error) {
	if name == "-" {
		return "standard input", io.NopCloser(s.in), nil
	}
	file, err = os.Open(name)
	return name, file, err
}

// interruptible returns a reader that ends when ctx is done. A plain Read of a pipe would not
// return before the next byte comes.
func interruptible(ctx context.Context, in io.Reader) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, in)
		w.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { w.Close() })
	return r
}

// isPipe reports whether a file is a named pipe that may never end. A pipe in /dev or /proc does
// not count, because a shell makes such a pipe for one command, and then the pipe ends.
func isPipe(name string, info fs.FileInfo) bool {
	return info.Mode()&fs.ModeNamedPipe != 0 &&
		!strings.HasPrefix(name, "/dev/") && !strings.HasPrefix(name, "/proc/")
}

// read reads a file of at most maxFile bytes.
func (s *streams) read(name string) (title string, data []byte, err error) {
	title, file, err := s.open(name)
	if err != nil {
		return title, nil, err
	}
	defer file.Close()
	data, err = io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s is longer than %d MiB: move the policies to a shorter file",
			title, maxFile>>20)
	}
	return title, data, err
}

// readFile reads and parses a file with policies. The error is a *policyfile.Fault if the file
// does not parse.
func (s *streams) readFile(name string) (*policyfile.File, error) {
	title, data, err := s.read(name)
	if err != nil {
		return nil, err
	}
	return policyfile.Parse(title, data)
}

// onlyFile returns the only argument of a command. Without an argument it returns "-" for standard
// input, unless standard input is a terminal.
func onlyFile(s *streams, args []string) (string, error) {
	switch {
	case len(args) > 1:
		return "", fmt.Errorf("there are %d files: write only one", len(args))
	case len(args) == 1:
		return args[0], nil
	case s.typed:
		return "", errors.New("no file is given: write the name of a file, or - for standard input")
	default:
		return "-", nil
	}
}

// A source says which policy of a file to read, and how. The field `from` is the dialect of the
// policy. If `from` is "", the dialect is detected from the keys and from their place in the file.
// The field `at` is the path to the policy. If `at` is "", the policy is in one of the usual
// places.
type source struct{ from, at string }

func (o *source) define(flags *flag.FlagSet) {
	all := policyfile.Dialects()
	flags.Func("from", "the `dialect` of the policy: "+strings.Join(all, ", ")+
		" (default: detected from the keys and from their place in the file)", oneOf(all, &o.from))
	flags.StringVar(&o.at, "at", "", "the `path` to the policy in the file, such as "+
		"services.payments.retry, or 2 for the second document. By default, it "+
		"is the key retry or work_config if its value is a policy, otherwise the whole file, "+
		"otherwise the settings of a system such as Envoy")
}

// oneOf returns the function that parses the value of a flag. The flag accepts only the values in
// the list `all`.
func oneOf(all []string, to *string) func(string) error {
	return func(text string) error {
		if *to = text; !slices.Contains(all, text) {
			return errors.New("write one of " + strings.Join(all, ", "))
		}
		return nil
	}
}

// A policy contains a retry.Policy that was read from a file, with its place in the file.
type policy struct {
	retry.Policy
	policyfile.Block
	dialect string
	text    string // the text of the whole file
}

// readPolicy reads the only policy of a file. If it fails, it prints the reasons, and `status` is
// not `ok`.
func (c *command) readPolicy(s *streams, name string, o source) (p policy, status int) {
	title, data, err := s.read(name)
	if err != nil {
		return p, c.failed(s, err)
	}
	file, err := policyfile.Parse(title, data)
	if err != nil {
		return p, c.failed(s, err)
	}
	p.text = string(data)
	block, fault := file.Only(o.at)
	if fault != nil {
		return p, c.failed(s, fault)
	}
	p.Block = block
	var faults []*policyfile.Fault
	p.Policy, p.dialect, faults = p.Read(o.from)
	for _, fault := range faults {
		status = c.failed(s, fault)
	}
	return p, status
}
