// Package printable makes texts from outside safe to print, such as a name in a file or the error
// of a server.
package printable

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

var lineBreaks = strings.NewReplacer("\r\n", "; ", "\n", "; ", "\r", "; ")

// Line returns `text` as one line that is safe to print on a terminal. Line breaks become "; ".
// Characters that cannot be printed are escaped as in Go, for example ESC and marks that reverse
// `text`. Bytes that are not UTF-8 become U+FFFD.
func Line(text string) string {
	isNot := func(r rune) bool { return !strconv.IsPrint(r) }
	if utf8.ValidString(text) && strings.IndexFunc(text, isNot) < 0 {
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
