package jinja

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
)

// tojson writes JSON as Jinja does: with sorted keys, in ASCII, and with HTML's
// special characters escaped.
func tojson(e *evaluation, in Value, _ []Value) Value {
	w := writer{e: e}
	w.json(in, 0)
	return markup(w.b.String())
}

func (w *writer) json(v Value, depth int) {
	w.e.visit(depth)
	switch v := v.(type) {
	case string:
		w.quoted(v, jsonText)
	case sequence:
		w.members("[", "]", v.length(), func(i int) { w.json(v.at(w.e, i), depth+1) })
	case mapping:
		w.jsonObject(v, depth)
	case nil:
		w.write("null")
	case bool, *big.Int:
		w.write(fmt.Sprint(v))
	case float64:
		w.write(jsonFloat(v))
	default:
		panic(wrong(v, "%s cannot be written as JSON", kind(v)))
	}
}

func (w *writer) jsonObject(m mapping, depth int) {
	pairs := m.pairs(w.e)
	for _, p := range pairs {
		if !isA[string](p.key) {
			panic(failf("the key %s of a mapping cannot be written as JSON", kind(p.key)))
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.key.(string), b.key.(string)) })
	w.members("{", "}", len(pairs), func(i int) {
		w.quoted(pairs[i].key.(string), jsonText)
		w.write(": ")
		w.json(pairs[i].value, depth+1)
	})
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

var jsonEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}

func jsonText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case jsonEscapes[r] != "":
			b.WriteString(jsonEscapes[r])
		case r >= ' ' && r < 0x7f && !strings.ContainsRune("<>&'", r) || r == 0x7f:
			b.WriteRune(r)
		case r >= 0x10000:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
