package policyfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// nodesOf returns how many nodes the YAML library makes of a text.
func nodesOf(t *testing.T, data []byte) int {
	t.Helper()
	f := new(File)
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		document := new(yaml.Node)
		if err := dec.Decode(document); err != nil {
			return f.nodes
		}
		f.count(document)
	}
}

// No text has more nodes than countStarts returns.
func TestStarts(t *testing.T) {
	for name, unit := range map[string]string{
		"a list on one line": "[%s]1,", "keys on one line": "{%s}a,", "JSON": `{%s}"a":1,`, "pairs in a list": "[%s]a: 1,",
		"pairs of JSON in a list": `[%s]"a":1,`, "empty pairs in a list": "[%s]a:,", "keys of a list": "[%s]? a,",
		"empty lists": "[%s][],", "empty mappings": "[%s]{},", "mappings in a list": "[%s]{a},", "a mapping as a key": "[%s]{a}:1,",
		"lines": "%sa\n", "a block list": "%s- a\n", "an empty block list": "%s-\n", "tabs": "%s-\ta\n", "keys": "%sk:\n", "empty keys": "%s: a\n",
		"explicit keys": "%s? a\n", "explicit keys with values": "%s? a\n: b\n", "documents": "%s---\n", "documents of a word": "%s--- a\n",
		"ends of documents": "%sa\n...\n", "old line breaks": "%s- a\r", "breaks of Unicode": "%s- a\u2028", "NEL": "%s- a\u0085",
		"lists in lists": "%s- - - - a\n", "tags": "[%s]!!str,", "anchors": "[%s]&a ,",
	} {
		t.Run(name, func(t *testing.T) {
			around, each, _ := strings.Cut(unit, "%s")
			closing := map[string]string{"[": "]", "{": "}"}[around]
			if closing != "" {
				each = strings.TrimPrefix(each, closing)
			}
			text := around + strings.Repeat(each, 500) + closing
			if name == "keys" || name == "keys on one line" || name == "JSON" { // each has its own name
				text = around
				for i := range 500 {
					text += strings.NewReplacer("k", "k"+strings.Repeat("x", i), "a", "a"+strings.Repeat("x", i)).Replace(each)
				}
				text += closing
			}
			data := []byte(text)
			n, _ := countStarts(data, len(data)*3)
			assert.GreaterOrEqual(t, n, nodesOf(t, data))

			wide := []byte{0xff, 0xfe}
			for _, unit := range utf16.Encode([]rune(text)) {
				wide = append(wide, byte(unit), byte(unit>>8))
			}
			n, _ = countStarts(wide, len(wide)*3)
			assert.GreaterOrEqual(t, n, nodesOf(t, wide))
		})
	}
	for _, pattern := range []string{"testdata/*.yaml", "../../testdata/*.yaml", "../../testdata/*.json"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, name := range files {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			n, _ := countStarts(data, len(data)*3)
			assert.GreaterOrEqual(t, n, nodesOf(t, data), name)
		}
	}
}

// A document with too many nodes is refused before the YAML library makes the nodes.
func TestHugeDocument(t *testing.T) {
	for name, each := range map[string]string{"on one line": "1,", "on lines": "- 1\n", "of pairs": `"a":1,`, "of empty elements": "-\n"} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat(each, 16<<20/len(each))
			if strings.HasSuffix(each, ",") {
				text = "[" + text + "1]"
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Parse("file.yaml", []byte(text))
			runtime.ReadMemStats(&after)
			require.ErrorContains(t, err, "up to this line, the file has more than 500000 places where a key or a value may begin")
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(20<<20), "the text itself is 16 MiB")
		})
	}
	dense := "[" + strings.Repeat("1,", mostFileNodes-10) + "1]"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	file, err := Parse("file.yaml", []byte(dense))
	require.NoError(t, err, "the largest number of nodes is accepted")
	block := file.Find("")[0]
	assert.False(t, block.Known())
	assert.Nil(t, block.Unread())
	_, _, faults := block.Read("")
	require.Len(t, faults, 1)
	runtime.ReadMemStats(&after)
	t.Logf("%d MiB for %d nodes", (after.TotalAlloc-before.TotalAlloc)>>20, mostFileNodes)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(120<<20), "only the nodes need memory")
	text := strings.Repeat("x, and so on - it is: prose\n", 3<<20/40)
	_, err = Parse("file.yaml", []byte("text: |\n  "+strings.ReplaceAll(text, "\n", "\n  ")))
	require.NoError(t, err, "prose is a single node")
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	return b.String()
}

// A block that is larger than any policy, or whose aliases expand to too many nodes, is reported as
// a fault. Such a block never reaches a decoder, which could take minutes. The number of nodes that
// a search looks at is limited. Other parts of the file may be larger than a policy.
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
		{"the largest accepted number of merged keys", many(11), "", large},
		{"merged keys of many mappings", many(12), "", "file.yaml:13: up to this line, << merges more than 100000 keys"},
		{"lists", lists, "", large},
		{"lists by a path", lists + "retry: *a40\n", "retry", large},
		{"lists at a place of settings", lists + "Retry: *a40\n", "", large},
		{"lists by a path of asterisks", lists, "a40" + strings.Repeat(".*", 40), "this path leads to too many places"},
		{"the largest accepted number of keys", "retry: {" + strings.ReplaceAll(manyKeys(mostKeys), "\n", ", ") + "}", "retry", `unknown key "k0"`},
		{"one key above the limit", manyKeys(mostKeys + 1), "", large},
		{"too many keys inside of other mappings", "x: {y: {" + strings.ReplaceAll(manyKeys(mostKeys+1), "\n", ", ") + "}}", "", large},
		{"a list", "backoff: {type: schedule, delays: [" + strings.Repeat("1s,", mostNodes) + "]}", "", large},
		{"next to the policy", manyKeys(20*mostKeys) + lists + "retry: {max_attempts: 0}", "", "max_attempts is 0"},
		{"next to the path", manyKeys(20*mostKeys) + "a: {b: {max_attempts: 0}}", "a.b", "max_attempts is 0"},
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

	// Neither a long key nor a deep list is copied for each entry below it, and many keys are not
	// compared with the keys of each system.
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
