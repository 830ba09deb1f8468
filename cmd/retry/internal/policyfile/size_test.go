package policyfile

import (
	"bytes"
	"os"
	"path/filepath"
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

// No text has more nodes than starts finds in it before they are made.
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
			n, _ := starts(data, len(data)*3)
			assert.GreaterOrEqual(t, n, nodesOf(t, data))

			wide := []byte{0xff, 0xfe}
			for _, unit := range utf16.Encode([]rune(text)) {
				wide = append(wide, byte(unit), byte(unit>>8))
			}
			n, _ = starts(wide, len(wide)*3)
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
			n, _ := starts(data, len(data)*3)
			assert.GreaterOrEqual(t, n, nodesOf(t, data), name)
		}
	}
}

// A document that has too many nodes is refused before the YAML library makes them.
func TestHugeDocument(t *testing.T) {
	for name, each := range map[string]string{"on one line": "1,", "on lines": "- 1\n", "of pairs": `"a":1,`, "of nothing": "-\n"} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat(each, 16<<20/len(each))
			if strings.HasSuffix(each, ",") {
				text = "[" + text + "1]"
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Parse("file.yaml", []byte(text))
			runtime.ReadMemStats(&after)
			require.ErrorContains(t, err, "this has more than 500000 places where a key or a value may begin, up to here")
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(20<<20), "the text itself is 16 MiB")
		})
	}
	dense := "[" + strings.Repeat("1,", mostFileNodes-10) + "1]"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	file, err := Parse("file.yaml", []byte(dense))
	require.NoError(t, err, "as many nodes as are read")
	block := file.Find("")[0]
	assert.False(t, block.Known())
	assert.Nil(t, block.Unread())
	_, _, faults := block.Read("")
	require.Len(t, faults, 1)
	runtime.ReadMemStats(&after)
	t.Logf("%d MiB for %d nodes", (after.TotalAlloc-before.TotalAlloc)>>20, mostFileNodes)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(120<<20), "the nodes, and no list of them")
	text := strings.Repeat("x, and so on - it is: prose\n", 3<<20/40)
	_, err = Parse("file.yaml", []byte("text: |\n  "+strings.ReplaceAll(text, "\n", "\n  ")))
	require.NoError(t, err, "prose is not many nodes")
}
