package policyfile

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
)

func TestCases(t *testing.T) {
	data, err := os.ReadFile("testdata/cases.yaml")
	require.NoError(t, err)
	var cases []struct {
		Name, Text, At, From, Want, Note string
		Line, Attempts                   int
		Delays                           []time.Duration
		Elapsed, Timeout                 time.Duration
	}
	require.NoError(t, yaml.Unmarshal(data, &cases))
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			p, got, line := retry.Policy{}, "", 0
			file, err := Parse("file.yaml", []byte(c.Text))
			if err != nil {
				got = err.Error()
			} else if block, fault := file.Only(c.At); fault != nil {
				got = fault.Text
			} else {
				policy, name, faults := block.Read(c.From)
				p, got = policy, strings.TrimSpace(block.At+" "+name)
				if faults != nil {
					got, line = faults[0].Text, faults[0].Line
				}
				assert.True(t, strings.HasPrefix(strings.Join(block.Notes, "; "), c.Note), block.Notes)
			}
			assert.True(t, strings.HasPrefix(got, c.Want), got)
			if c.Line > 0 {
				assert.Equal(t, c.Line, line)
			}
			if c.Attempts == 0 {
				return
			}
			assert.Equal(t, [3]any{c.Attempts, c.Elapsed, c.Timeout}, [3]any{p.EffectiveMax(), p.MaxElapsed, p.AttemptTimeout})
			for i, want := range c.Delays {
				d := p.Next(retry.Attempt{Number: i + 1, Seed: 1})
				assert.Equal(t, [2]time.Duration{want, want}, [2]time.Duration{d.Lo, d.Hi}, i)
			}
		})
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	return b.String()
}

// What is larger than any policy, or stands for more than anybody could read, is a
// fault, or is looked at once. No decoder gets it, which it could keep busy for
// minutes. The bound is on steps. Beside a policy a file may have any size.
func TestHostile(t *testing.T) {
	nested := func(line string) string {
		text := "a0: &a0 {x: 1}\n"
		for i := range 40 {
			text += fmt.Sprintf(line, i+1, i+1, i, i)
		}
		return text
	}
	many := func(mappings int) string {
		text := "a: &a {" + strings.ReplaceAll(manyKeys(900), "\n", ", ") + "}\n"
		for i := range mappings {
			text += fmt.Sprintf("m%d: {<<: [*a%s]}\n", i, strings.Repeat(", *a", 9))
		}
		return text
	}
	merges, lists := nested("a%d: &a%d {<<: [*a%d, *a%d]}\n"), nested("a%d: &a%d [*a%d, *a%d]\n")
	const large, merged = "this is larger than any policy: write the path to the policy with -at", "file.yaml:14: << merges more than 10000 keys here"
	for _, test := range []struct{ name, text, at, want string }{
		{"merges", merges, "", merged},
		{"merges beside a policy", merges + "retry: {max_attempts: 3}", "", merged},
		{"as many merged keys as are read", many(11), "", large},
		{"merged keys of many mappings", many(12), "", "file.yaml:13: << merges more than 100000 keys in this file, up to here"},
		{"lists", lists, "", large},
		{"lists by a path", lists + "retry: *a40\n", "retry", large},
		{"lists at a place of settings", lists + "Retry: *a40\n", "", large},
		{"lists by asterisks", lists, "a40" + strings.Repeat(".*", 40), "this path leads to too many places"},
		{"as many keys as are read", "retry: {" + strings.ReplaceAll(manyKeys(mostKeys), "\n", ", ") + "}", "retry", `unknown key "k0"`},
		{"one key more", manyKeys(mostKeys + 1), "", large},
		{"within", "x: {y: {" + strings.ReplaceAll(manyKeys(mostKeys+1), "\n", ", ") + "}}", "", large},
		{"a list", "backoff: {type: schedule, delays: [" + strings.Repeat("1s,", mostNodes) + "]}", "", large},
		{"beside the policy", manyKeys(20*mostKeys) + lists + "retry: {max_attempts: 0}", "", "max_attempts is 0"},
		{"beside the path", manyKeys(20*mostKeys) + "a: {b: {max_attempts: 0}}", "a.b", "max_attempts is 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file, err := Parse("file.yaml", []byte(test.text))
			if err != nil {
				require.EqualError(t, err, test.want)
				return
			}
			assert.Less(t, file.steps, 500+len(test.text))
			blocks := file.Find(test.at)
			for _, from := range []string{"", Native} {
				_, _, faults := blocks[len(blocks)-1].Read(from)
				require.NotEmpty(t, faults)
				assert.True(t, strings.HasPrefix(faults[0].Text, test.want), faults[0].Text)
			}
		})
	}

	// Neither a long key nor a deep list is copied for each entry below it, and many keys
	// are not compared with those of each system.
	for _, text := range []string{
		`{"` + strings.ReplaceAll(manyKeys(10*mostKeys), ": 1\n", `": 1, "`) + `z": 1}`,
		`{"` + strings.Repeat("k", 1<<20) + `": {` + regexp.MustCompile(`(k\d+): 1\n`).ReplaceAllString(manyKeys(900), `"$1": 1, `) + `"z": 1}}`,
		strings.Repeat("[", 5000) + strings.Repeat(`{"retry": {"max_attempts": 2}}, `, 3000) + "1" + strings.Repeat("]", 5000),
	} {
		file, err := Parse("file.json", []byte(text))
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		block := file.Find("")[0]
		block.elsewhere()
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20), text[:10])
	}
	long := strings.Repeat("x", 1<<20)
	file, err := Parse("file.yaml", []byte("{initialInterval: "+long+", maximumAttempts: 3}"))
	require.NoError(t, err)
	_, _, faults := file.Find("")[0].Read("")
	require.NotEmpty(t, faults)
	assert.Less(t, len(faults[0].Text), 200)
}

// What a file has in it cannot reach a terminal, or be taken for an annotation.
func TestFaultIsPrintable(t *testing.T) {
	fault := &Fault{File: "\x1b[31m\n::error::x.yaml", Line: 1, Text: "an \x07"}
	assert.Equal(t, `\x1b[31m; ::error::x.yaml:1: an \a`, fault.Error())
}
