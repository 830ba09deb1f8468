// Package printable makes foreign text safe to print, for example a name in a file or the error of
// a server.
package printable

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

var lineBreaks = strings.NewReplacer("\r\n", "; ", "\n", "; ", "\r", "; ")

// Line returns `text` as one line. The result has no characters that control a terminal or change
// the order of the text. Line breaks become "; ". Characters that cannot be printed are escaped
// as in Go. Bytes that are not UTF-8 become U+FFFD.
func Line(text string) string {
	plain := 0 // how many bytes at the start are printable ASCII; usually all
	for plain < len(text) && text[plain] >= ' ' && text[plain] <= '~' {
		plain++
	}
	isNot := func(r rune) bool { return !strconv.IsPrint(r) }
	if rest := text[plain:]; utf8.ValidString(rest) && strings.IndexFunc(rest, isNot) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range lineBreaks.Replace(text) {
		if isNot(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
