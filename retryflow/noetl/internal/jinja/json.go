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
func tojson(e *evaluation, in Value, _ []Value) (Value, error) {
	w := writer{e: e}
	if err := w.json(in, 0); err != nil {
		return nil, err
	}
	return markup(w.b.String()), nil
}

func (w *writer) json(v Value, depth int) error {
	if err := w.e.visit(depth); err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		return w.write("null")
	case bool:
		if v {
			return w.write("true")
		}
		return w.write("false")
	case *big.Int:
		return w.write(v.String())
	case float64:
		return w.write(jsonFloat(v))
	case string:
		return w.quoted(v, jsonText)
	case interval:
	case sequence:
		return w.members("[", "]", v.length(), func(i int) error {
			member, err := v.at(w.e, i)
			if err != nil {
				return err
			}
			return w.json(member, depth+1)
		})
	case mapping:
		return w.jsonObject(v, depth)
	case *undefined:
		return v.err()
	}
	return fmt.Errorf("%s cannot be written as JSON", kind(v))
}

func (w *writer) jsonObject(m mapping, depth int) error {
	pairs, err := m.pairs(w.e)
	if err != nil {
		return err
	}
	slices.SortStableFunc(pairs, func(a, b pair) int {
		c, ok, orderErr := w.e.order(a.key, b.key, 0)
		if err == nil && (orderErr != nil || !ok) {
			err = fmt.Errorf("the keys %s and %s of a mapping have no order", kind(a.key), kind(b.key))
		}
		return c
	})
	if err != nil {
		return err
	}
	return w.members("{", "}", len(pairs), func(i int) error {
		var key string
		switch k := pairs[i].key.(type) {
		case string:
			key = k
		case bool:
			key = strings.ToLower(kind(k))
		case nil:
			key = "null"
		case *big.Int:
			key = k.String()
		case float64:
			key = jsonFloat(k)
		default:
			return fmt.Errorf("the key %s of a mapping cannot be written as JSON", kind(k))
		}
		if err := w.quoted(key, jsonText); err != nil {
			return err
		}
		if err := w.write(": "); err != nil {
			return err
		}
		return w.json(pairs[i].value, depth+1)
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
