package jinja_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every letter with a case and every space is handled as in Python, alone and
// in a word. Python 3.11 and Go have different versions of Unicode, but the
// letters with two cases are the same in both.
func TestLettersAgainstTheOracle(t *testing.T) {
	o := theOracle(t)
	var chunks []string
	var chunk strings.Builder
	n := 0
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if unicode.ToLower(r) == unicode.ToUpper(r) && !unicode.IsSpace(r) {
			continue
		}
		chunk.WriteRune(r)
		chunk.WriteString(" a" + string(r) + "A" + string(r) + "-")
		if n++; n%200 == 0 {
			chunks = append(chunks, chunk.String())
			chunk.Reset()
		}
	}
	chunks = append(chunks, chunk.String(),
		"ὈΔΥΣΣΕΎΣ ΣΑΣ Σ Σ. ΑΣ'Σ ΑΣ.Α", "ŉ ß ﬁ ﬃ ΐ և ǆ ǅ Ǆ İ i̇ ı ꟊ ꟶ Ɤ", "\u00a0\u1680\u2003\u2028\u2029\u3000\u0085x\u200b\u00ad\ufeff")
	compared := 0
	for _, s := range chunks {
		quoted := "'" + strings.ReplaceAll(s, "'", `\'`) + "'"
		for _, operation := range []string{" | lower", ".upper()", ".split()", " | trim | length"} {
			a, refused := ours(quoted+operation, nil)
			require.NoError(t, refused)
			assert.Empty(t, compare(a, o.ask(t, quoted+operation)[0]), "%s%s", quoted, operation)
			compared++
		}
	}
	t.Logf("%d letters, %d answers compared", n, compared)
}
