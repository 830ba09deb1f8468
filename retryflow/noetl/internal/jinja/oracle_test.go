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
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retryflow/noetl/internal/jinja"
)

// An oracle is Jinja in a Python process that answers over pipes.
type oracle struct {
	mu      sync.Mutex
	in      io.WriteCloser
	out     *bufio.Reader
	process *exec.Cmd
}

// An answer is the result of an expression, from Jinja or from this package. A
// nil field is an error.
type answer struct {
	Text       *string `json:"text,omitempty"`
	TextError  string  `json:"text_error,omitempty"`
	Truth      *string `json:"truth,omitempty"`
	TruthError string  `json:"truth_error,omitempty"`
	Address    bool    `json:"address,omitempty"` // the text names an object in Python's memory
}

// python is Debian's Python, whose Jinja is the package python3-jinja2.
const python = "/usr/bin/python3"

// theOracle starts an oracle and stops it when the test ends.
func theOracle(t testing.TB) *oracle {
	o := startOracle(t)
	t.Cleanup(o.stop)
	return o
}

// fuzzOracle returns the one oracle of a process that fuzzes.
func fuzzOracle(t *testing.T) *oracle {
	fuzzing.Do(func() { fuzzing.oracle = startOracle(t) })
	if fuzzing.oracle == nil {
		t.Skip("there is no oracle")
	}
	return fuzzing.oracle
}

var fuzzing struct {
	sync.Once
	*oracle
}

// startOracle skips the test without Jinja, except in CI, where it fails.
func startOracle(t testing.TB) *oracle {
	if err := exec.Command(python, "-c", "import jinja2").Run(); err != nil {
		require.Empty(t, os.Getenv("CI"), "%s has no jinja2: install python3-jinja2", python)
		t.Skipf("%s has no jinja2: install python3-jinja2", python)
	}
	o := &oracle{}
	versions := o.start(t)
	t.Logf("the oracle is Jinja %s of Python %s", versions["jinja"], versions["python"])
	return o
}

func (o *oracle) start(t testing.TB) (versions map[string]string) {
	o.process = exec.Command(python, "-W", "ignore", "testdata/oracle.py")
	o.process.Stderr = os.Stderr
	var err error
	o.in, err = o.process.StdinPipe()
	require.NoError(t, err)
	out, err := o.process.StdoutPipe()
	require.NoError(t, err)
	o.out = bufio.NewReader(out)
	require.NoError(t, o.process.Start())
	line, err := o.out.ReadBytes('\n')
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(line, &versions))
	return versions
}

func (o *oracle) stop() {
	_ = o.in.Close()
	_ = o.process.Wait()
}

// ask returns Jinja's answers, one for each outcome, or nil if they took too
// long.
func (o *oracle) ask(t testing.TB, expression string) (answers []answer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	request, err := json.Marshal(expression)
	require.NoError(t, err)
	_, err = o.in.Write(append(request, '\n'))
	require.NoError(t, err)
	line, err := o.out.ReadBytes('\n')
	if err != nil {
		o.stop()
		o.start(t)
		return nil
	}
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

// ours returns this package's answer, or refused if the expression could not be
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

// excused are the errors that an expression may end with although Jinja has an
// answer: for what Go has lost, what costs too much, what differs between
// machines or versions of Python and Jinja, and for values without their own
// text.
var excused = []string{
	"is lost in Go", // the order of a mapping
	"it takes more than", "it makes values of more than", "nested more than", "has more than 4096 bits",
	"has no exact answer", "depends on the version",
	"nan cannot be", "nan has no place",
	"the text of tojson",
	"not supported",
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
	truth := differs("truth", ours.Truth, ours.TruthError, jinjas.Truth, jinjas.TruthError)
	if jinjas.Address {
		if ours.Text != nil {
			return fmt.Sprintf("text: %q, but Jinja has an address: %q", *ours.Text, *jinjas.Text)
		}
		return truth
	}
	return truth + differs("text", ours.Text, ours.TextError, jinjas.Text, jinjas.TextError)
}

func isExcused(err string) bool {
	return slices.ContainsFunc(excused, func(text string) bool { return strings.Contains(err, text) })
}
