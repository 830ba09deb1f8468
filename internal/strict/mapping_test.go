package strict_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/internal/strict"
)

// The packages that use this package test most of its features. This test is about null and about
// text that would break the line of an error.
func TestDecode(t *testing.T) {
	type form struct {
		n    int
		text string
	}
	for _, tc := range []struct {
		name, text  string
		nullIsFault bool
		fault       string // "": n is 7
	}{
		{name: "every key", text: `{"n": 7, "text": "x", "in": {"n": 7}}`},
		{name: "null is left out", text: `{"n": 7, "text": null, "in": null}`},
		{name: "null of a key that is needed", text: `{"n": null}`, fault: `n is missing: write N`},
		{name: "null is left out of an inner mapping", text: `{"n": 7, "in": {"n": null}}`},
		{name: "null is a fault", nullIsFault: true, text: `{"n": 7, "text": null, "in": null}`,
			fault: `text is null: write T, or leave the key out; in is null: write a mapping, or leave the key out`},
		{name: "null of a key that is needed is a fault", nullIsFault: true, text: `{"n": null}`, fault: `n is null: write N`},
		{name: "null in an inner mapping is a fault", nullIsFault: true, text: `{"n": 7, "in": {"n": null}}`,
			fault: `in.n is null: write N, or leave the key out`},
		{name: "both mappings", text: `{"n": "7", "in": {"n": [], "n": 0.0, "m": 1}, "m": 1}`,
			fault: `n is "7": write N; duplicate key "in.n"; in.n is 0.0: write N; ` +
				`unknown key "in.m": the keys of an inner form are n, deep; unknown key "m": the keys of a form are n, text, in`},
		{name: "a mapping in an inner mapping", text: `{"n": 7, "in": {"deep": {"m": 1}}}`,
			fault: `unknown key "in.deep.m": the keys of a deep form are `},
		{name: "an inner value that is not a mapping", text: `{"n": 7, "in": [ 7 ]}`, fault: `in is [7]: write a mapping`},
		{name: "a value that isValid rejects", text: `{"n": 8}`, fault: `n is 8: write N`},
		{name: "characters that end a line or hide one", text: "{\"n\": \"\u0085\u2028\u202e\x7f<\\n\"}",
			fault: `n is "\u0085\u2028\u202e\u007f<\n": write N`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := form{n: 1, text: "before"}
			got := before
			err := strict.Decode(&got, []byte(tc.text), "strict", `{"n": 7}`, func(f *form, m *strict.Mapping) {
				m.NullIsFault = tc.nullIsFault
				f.n, _ = strict.Need(m, "n", "N", func(n int) bool { return n == 7 })
				f.text, _ = strict.Take[string](m, "text", "T", nil)
				if in := m.Inner("in", "a mapping"); in != nil {
					strict.Take[int](in, "n", "N", nil)
					if deep := in.Inner("deep", "a mapping"); deep != nil {
						deep.RejectRest("a deep form")
					}
					in.RejectRest("an inner form")
				}
				m.RejectRest("a form")
			})
			if tc.fault != "" {
				require.EqualError(t, err, "strict: "+tc.fault)
				assert.Equal(t, before, got)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, 7, got.n)
		})
	}
}

// An error keeps 20 findings, however many faults its text names.
func TestDecodeKeepsTwentyFindings(t *testing.T) {
	keys := make(map[string]int)
	for i := range 15 {
		keys[fmt.Sprint("k", i)] = i
	}
	inner, err := json.Marshal(keys)
	require.NoError(t, err)
	err = strict.Decode(new(int), fmt.Appendf(nil, `{"in": %s, "too": %s}`, inner, inner), "strict", "", func(_ *int, m *strict.Mapping) {
		m.Inner("in", "a mapping").RejectRest("a form")
		m.Inner("too", "a mapping").RejectRest("a form")
	})
	var faults *strict.Error
	require.ErrorAs(t, err, &faults)
	assert.Len(t, faults.Faults, 20)
	assert.ErrorContains(t, err, `"too.k9": the keys of a form are `)
}
