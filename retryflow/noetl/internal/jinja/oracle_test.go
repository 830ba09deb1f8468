package jinja_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retryflow/noetl/internal/jinja"
)

// An oracle is a Python process with Jinja that answers over pipes.
type oracle struct {
	in  io.WriteCloser
	out *bufio.Reader
}

// An answer is the result of an expression, from Jinja or from this package. A field is nil if
// the evaluation fails.
type answer struct {
	Text       *string `json:"text,omitempty"`
	TextError  string  `json:"text_error,omitempty"`
	Truth      *string `json:"truth,omitempty"`
	TruthError string  `json:"truth_error,omitempty"`
}

// python is the Python of Debian. Its Jinja is in the package python3-jinja2.
const python = "/usr/bin/python3"

// theOracle starts an oracle, and stops it when the test ends.
func theOracle(t testing.TB) *oracle {
	if os.Getenv("RETRY_LONG") == "" && !*update {
		t.Skip("Jinja itself is asked with RETRY_LONG=1")
	}
	process := exec.Command(python, "-W", "ignore", "testdata/oracle.py")
	process.Stderr = os.Stderr
	in, err := process.StdinPipe()
	require.NoError(t, err)
	out, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = process.Wait()
	})
	o := &oracle{in, bufio.NewReader(out)}
	line, err := o.out.ReadBytes('\n')
	require.NoError(t, err, "%s needs jinja2: install python3-jinja2", python)
	t.Logf("the oracle is %s", line)
	return o
}

// ask returns Jinja's answers, one for each of the names.
func (o *oracle) ask(t testing.TB, expression string, names []json.RawMessage) (answers []answer) {
	request, err := json.Marshal([]any{expression, names})
	require.NoError(t, err)
	_, err = o.in.Write(append(request, '\n'))
	require.NoError(t, err)
	line, err := o.out.ReadBytes('\n')
	require.NoError(t, err, expression)
	require.NoError(t, json.Unmarshal(line, &answers))
	return answers
}

// failure returns the errors of an answer.
func (a answer) failure() string {
	if a.TextError == a.TruthError {
		return a.TextError
	}
	return a.TruthError + " | " + a.TextError
}

// ours returns the answer of this package, or the error refused if the expression cannot be
// parsed.
func ours(expression string, names map[string]any) (a answer, refused error) {
	template, err := jinja.Parse("{{ "+expression+" }}", func() float64 { return 0.25 })
	if err != nil {
		return a, err
	}
	if !template.Single() {
		return a, errors.New("the expression ends the braces early")
	}
	if text, err := template.Text(lookup(names)); err != nil {
		a.TextError = err.Error()
	} else {
		a.Text = &text
	}
	if holds, err := template.Truth(lookup(names)); err != nil {
		a.TruthError = err.Error()
	} else {
		truth := fmt.Sprint(holds)
		a.Truth = &truth
	}
	return a, nil
}

// excused are the errors that an expression may have although Jinja has an answer: Go lacks the
// information, the expression costs too much, or rules do not need it.
var excused = []string{
	"has no text here",    // a list, or a mapping whose order is lost
	"has no first member", // the first member of a mapping
	"has no last member",  // the last member of a mapping
	"cannot be joined",    // a text or a mapping
	"cannot order a list", // by its members
	"cannot multiply",     // a text, which repeats it
	"the expression takes more than", "the expression makes values of more than", "nested more than", "64 bits", "depends on the version",
	"nan cannot be", "the text of tojson", "not supported",
}

var undefinedNumber = regexp.MustCompile("name '(inf|nan)' is not defined")

// compare returns how our answer differs from Jinja's, or "" if it does not.
func compare(ours, jinjas answer) string {
	differs := func(what string, our *string, ourError string, theirs *string, theirError string) string {
		switch {
		case our != nil && theirs == nil && undefinedNumber.MatchString(theirError):
			return "" // Jinja writes a constant that is inf or nan into its program as a name
		case our != nil && theirs == nil:
			return fmt.Sprintf("%s: %q, but Jinja fails: %s", what, *our, theirError)
		case our != nil && *our != *theirs:
			return fmt.Sprintf("%s: %q, and Jinja: %q", what, *our, *theirs)
		case our == nil && theirs != nil && !isExcused(ourError):
			return fmt.Sprintf("%s fails: %s, but Jinja: %q", what, ourError, *theirs)
		}
		return ""
	}
	return differs("truth", ours.Truth, ours.TruthError, jinjas.Truth, jinjas.TruthError) +
		differs("text", ours.Text, ours.TextError, jinjas.Text, jinjas.TextError)
}

func isExcused(err string) bool {
	return slices.ContainsFunc(excused, func(text string) bool { return strings.Contains(err, text) })
}
