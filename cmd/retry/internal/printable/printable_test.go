package printable_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry/cmd/retry/internal/printable"
)

func TestLineIsSafeToPrint(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"a b/ä.yaml":              "a b/ä.yaml",
		"one\ntwo\r\nthree\rfour": "one; two; three; four",
		"\n::error::x":            "; ::error::x",
		"red \x1b[31m, it's \a":   `red \x1b[31m, it's \a`,
		"\u202egnp.exe":           `\u202egnp.exe`,
		"\t'":                     `\t'`,
		"not UTF-8: \xff":         "not UTF-8: \ufffd",
		"\u2028\u00a0\U000e0001":  `\u2028\u00a0\U000e0001`,
	} {
		assert.Equal(t, want, printable.Line(text))
	}
}
