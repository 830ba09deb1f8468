package policyfile

import (
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"go.yaml.in/yaml/v3"
)

// longestKey limits the length of a key that is compared in all its spellings. Comparing a key of
// several megabytes would take seconds.
const longestKey = 100

// fold returns the same text for all spellings of a key.
func fold(key string) string { return strings.ToLower(strings.ReplaceAll(key, "_", "")) }

// snake turns camelCase into snake_case. Protocol buffers accept both spellings.
func snake(key string) string {
	if !strings.ContainsFunc(key, func(r rune) bool { return 'A' <= r && r <= 'Z' }) {
		return key // most keys have no upper case, and a regular expression is slow
	}
	return upper.ReplaceAllStringFunc(key, func(c string) string { return "_" + strings.ToLower(c) })
}

var upper = regexp.MustCompile(`[A-Z]`)

func exactly(key string) string { return key }

// plainOf returns the function of a system that maps all spellings of a key to the same text.
func plainOf(system string) func(string) string {
	if i := slices.IndexFunc(formats, func(f format) bool { return f.name == system }); i >= 0 {
		return formats[i].plain
	}
	return exactly
}

// nearKeys returns how many keys of b look like misspelled keys of a policy.
func (b *Block) nearKeys() (n int) {
	if b.node.Kind != yaml.MappingNode || len(b.node.Content) > 2*mostKeys {
		return 0
	}
	for e := range eachEntry(b.node) {
		if isNear(e.key) {
			n++
		}
	}
	return n
}

// isNear reports whether a key looks like a misspelled key of a policy.
func isNear(key string) bool {
	native := dialects[0]
	return !native.accepts(native.keys, key) && nearest(key, native.keys) != ""
}

// nearest returns the element of `keys` that the user probably meant by the parameter `key`. It
// considers only keys of the same mapping. It returns "" if no element is similar, or if `key`
// itself is in `keys`.
func nearest(key string, keys []string) string {
	if len(key) > 60 || slices.Contains(keys, key) { // the time grows with the length of `key`
		return ""
	}
	prefix := key[:strings.LastIndex(key, ".")+1]
	plain := func(key string) string { return strings.ToLower(separators.Replace(key)) }
	written := plain(key[len(prefix):])
	best, least := "", 2+len(written)/8
	for _, k := range keys {
		inner, ok := strings.CutPrefix(k, prefix)
		if !ok || strings.Contains(inner, ".") {
			continue
		}
		if d := levenshtein.ComputeDistance(written, plain(inner)); d < least || d == 0 {
			best, least = k, d
		}
	}
	return best
}

var separators = strings.NewReplacer("_", "", "-", "", " ", "")
