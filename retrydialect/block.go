package retrydialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A block is a mapping that is being read. Each key is taken out of it once;
// what is left in the end is not known to the dialect.
type block struct {
	values    map[string]any
	leaveNull bool     // a null is a key that is left out
	keys      []string // that the dialect knows
	faults    faults
}

// jsonBlock reads a JSON object; null is none. It goes by tokens, for decoding
// into a map would hide a key that is written twice.
func jsonBlock(data []byte) (*block, error) {
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		return nil, err // tokens alone would not tell that the text breaks off
	}
	b := &block{values: map[string]any{}}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	switch open, err := d.Token(); {
	case err != nil:
		return nil, err
	case open == nil:
		return nil, nil
	case open != json.Delim('{'):
		b.faults.add("the block", open, keysAndValues)
		return b, nil
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if _, twice := b.values[key.(string)]; twice {
			b.faults = append(b.faults, fmt.Sprintf("%s is written twice: keep one", key))
		}
		b.values[key.(string)] = value
	}
	return b, nil
}

// yamlBlock reads a YAML mapping; null is none. A key that is written twice is
// found by the decoder, which alone can see it.
func yamlBlock(unmarshal func(any) error) (*block, error) {
	b := &block{}
	err := unmarshal(&b.values)
	switch {
	case err == nil && b.values == nil:
		return nil, nil
	case err == nil:
		return b, nil
	}
	var other any
	if unmarshal(&other) == nil {
		b.faults.add("the block", other, keysAndValues)
		return b, nil
	}
	return nil, err
}

const keysAndValues = "its keys and their values"

// take returns the value of a key and whether there is one.
func (b *block) take(key string) (any, bool) {
	b.keys = append(b.keys, key)
	v, ok := b.values[key]
	delete(b.values, key)
	if v == nil && b.leaveNull {
		return nil, false
	}
	return v, ok
}

// whole returns a whole number of at most so many bits.
func (b *block) whole(key string, bits int) (int64, bool) {
	v, ok := b.take(key)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(digits(v), 10, bits)
	switch {
	case errors.Is(err, strconv.ErrRange):
		b.faults.add(key, v, "a whole number closer to 0, such as 3")
	case err != nil:
		b.faults.add(key, v, "a whole number, such as 3")
	}
	return n, err == nil
}

// count returns a whole number that an int holds.
func (b *block) count(key string) (int, bool) {
	n, ok := b.whole(key, strconv.IntSize)
	return int(n), ok
}

// number returns a number that may have a fraction.
func (b *block) number(key string) (float64, bool) {
	v, ok := b.take(key)
	if !ok {
		return 0, false
	}
	if x, ok := v.(float64); ok {
		return x, true
	}
	x, err := strconv.ParseFloat(digits(v), 64)
	if err != nil {
		b.faults.add(key, v, "a number, such as 0.5")
	}
	return x, err == nil
}

// digits returns the text of a number as JSON has it and of a whole number as
// YAML has it, and "" for anything else.
func digits(v any) string {
	switch v.(type) {
	case json.Number, int, int64, uint64:
		return fmt.Sprint(v)
	default:
		return ""
	}
}

// boolean returns true or false.
func (b *block) boolean(key string) (is, ok bool) {
	v, ok := b.take(key)
	if !ok {
		return false, false
	}
	is, ok = v.(bool)
	if !ok {
		b.faults.add(key, v, "true or false")
	}
	return is, ok
}

// text returns text; such says what to write.
func (b *block) text(key, such string) (string, bool) {
	v, ok := b.take(key)
	if !ok {
		return "", false
	}
	s, ok := v.(string)
	if !ok {
		b.faults.add(key, v, such)
	}
	return s, ok
}

// duration returns a duration that is written as text.
func (b *block) duration(key string) (time.Duration, bool) {
	const such = `a duration with its unit, such as "200ms" or "1m30s"`
	s, ok := b.text(key, such)
	if !ok {
		return 0, false
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		b.faults.add(key, s, such)
	}
	return d, err == nil
}

// err returns what is wrong with the block, once every key of the dialect has
// been taken.
func (b *block) err(dialect string) error {
	if len(b.values) > 0 {
		unknown := slices.Sorted(maps.Keys(b.values))
		b.faults = append(b.faults, fmt.Sprintf("unknown key %s: the keys are %s", strings.Join(unknown, ", "), strings.Join(b.keys, ", ")))
	}
	return b.faults.err(dialect)
}

// unreadable returns the error of a block that could not be read at all, nil
// if it is null. Decoders of YAML write theirs on several lines.
func unreadable(dialect string, err error) error {
	if err == nil {
		return nil
	}
	return faults{strings.Join(strings.Fields(err.Error()), " ")}.err(dialect)
}
