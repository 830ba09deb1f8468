package jinja

import (
	"fmt"
	"math"
	"strings"
)

// tojson writes JSON as Jinja does: with sorted keys, in ASCII, and with the special characters
// of HTML escaped.
func tojson(e *evaluation, in Value, _ []Value) Value {
	w := writer{e: e}
	w.json(in, 0)
	return markup(w.b.String())
}

type writer struct {
	e *evaluation
	b strings.Builder
}

func (w *writer) write(s string) {
	w.b.WriteString(s)
	w.e.grow(len(s))
}

func (w *writer) json(v Value, depth int) {
	w.e.visit(depth)
	switch v := v.(type) {
	case string:
		w.text(v)
	case sequence:
		w.members("[", "]", v.length(), func(i int) { w.json(v.at(w.e, i), depth+1) })
	case mapping:
		keys := v.keys(w.e)
		w.members("{", "}", len(keys), func(i int) {
			w.text(keys[i])
			w.write(": ")
			value, _ := v.get(w.e, keys[i])
			w.json(value, depth+1)
		})
	case nil:
		w.write("null")
	case bool, int64:
		w.write(strings.ToLower(kind(v)))
	case float64:
		w.write(jsonFloat(v))
	default:
		panic(wrong(v, "%s cannot be written as JSON", kind(v)))
	}
}

func (w *writer) members(open, close string, n int, member func(i int)) {
	w.write(open)
	for i := range n {
		if i > 0 {
			w.write(", ")
		}
		member(i)
	}
	w.write(close)
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	default:
		return formatFloat(f)
	}
}

var jsonEscapes = map[rune]string{
	'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`,
}

// text writes a text in quotes.
func (w *writer) text(s string) {
	w.e.countRead(len(s))
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case jsonEscapes[r] != "":
			b.WriteString(jsonEscapes[r])
		case r >= ' ' && r < 0x7f && !strings.ContainsRune("<>&'", r):
			b.WriteRune(r)
		case r >= 0x10000:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	w.write(b.String())
}
