package policyfile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	return b.String()
}

// A block that is larger than any policy is a fault. It is not passed to a
// decoder, which it could keep busy for minutes. A file may have any size.
func TestTooLarge(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e]\n"
	const large = "this is larger than any policy: say by a path where the policy is"
	for _, test := range []struct{ name, text, at, want string }{
		{"as many keys as are read", manyKeys(mostKeys), "", `unknown key "k0"`},
		{"one key more", manyKeys(mostKeys + 1), "", large},
		{"within", "x: {y: {" + strings.ReplaceAll(manyKeys(mostKeys+1), "\n", ", ") + "}}", "", large},
		{"aliases", bomb + "retry: *f", "", large},
		{"a list", "backoff: {type: schedule, delays: [" + strings.Repeat("1s,", mostNodes) + "]}", "", large},
		{"beside the policy", manyKeys(20*mostKeys) + bomb + "retry: {max_attempts: 0}", "", "max_attempts is 0"},
		{"beside the path", manyKeys(20*mostKeys) + "a: {b: {max_attempts: 0}}", "a.b", "max_attempts is 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file, err := Parse("file.yaml", []byte(test.text))
			require.NoError(t, err)
			block, fault := file.Only(test.at)
			require.Nil(t, fault)
			for _, from := range []string{"", Native} {
				_, _, faults := block.Read(from)
				require.NotEmpty(t, faults)
				assert.True(t, strings.HasPrefix(faults[0].Text, test.want), faults[0].Text)
			}
		})
	}
}

func TestContainsItself(t *testing.T) {
	for text, line := range map[string]int{"&a [*a]": 1, "x: 1\na: &a\n  <<: *a": 2, "\na: &a {b: &b {c: *a}}": 2, "a: &a [1]\nb: [*a, *a]": 0} {
		_, err := Parse("file.yaml", []byte(text))
		if line == 0 {
			assert.NoError(t, err)
			continue
		}
		assert.EqualError(t, err, fmt.Sprintf("file.yaml:%d: the anchor contains itself", line))
	}
}
