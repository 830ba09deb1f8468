package strict_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect/strict"
)

// The tests of the packages that use package strict cover most of it. These rows are about null,
// also in an inner mapping, and about text that would break the line of an error.
func TestDecode(t *testing.T) {
	type form struct {
		n    int
		text string
	}
	for _, tc := range []struct {
		name, text  string
		nullIsFault bool
		fault       string // "": no fault, and n is 7
	}{
		{name: "every key", text: `{"n": 7, "text": "x", "in": {"n": 7}}`},
		{name: "null counts as left out", text: `{"n": 7, "text": null, "in": null}`},
		{name: "null in an inner mapping counts as left out", text: `{"n": 7, "in": {"n": null}}`},
		{name: "null is a fault", nullIsFault: true, text: `{"n": 7, "text": null, "in": null}`,
			fault: `text is null: write T, or leave the key out; in is null: write a mapping, or leave the key out`},
		{name: "null in an inner mapping is a fault", nullIsFault: true, text: `{"n": 7, "in": {"n": null}}`,
			fault: `in.n is null: write N, or leave the key out`},
		{name: "both mappings", text: `{"n": "7", "in": {"n": [], "n": 0.0, "m": 1}, "m": 1}`,
			fault: `n is "7": write N; duplicate key "in.n"; in.n is 0.0: write N; ` +
				`unknown key "in.m": the keys of an inner form are n, deep; unknown key "m": the keys of a form are n, text, in`},
		{name: "a mapping in an inner mapping", text: `{"n": 7, "in": {"deep": {"m": 1}}}`,
			fault: `unknown key "in.deep.m": the keys of a deep form are `},
		{name: "an inner value that is not a mapping", text: `{"n": 7, "in": [ 7 ]}`, fault: `in is [7]: write a mapping`},
		{name: "an invalid value", text: `{"n": 8}`, fault: `n is 8: write N`},
		{name: "characters that end a line or hide one", text: "{\"n\": \"\u0085\u2028\u202e\x7f<\\n\"}",
			fault: `n is "\u0085\u2028\u202e\u007f<\n": write N`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := form{n: 1, text: "before"}
			got := before
			err := strict.Decode(&got, []byte(tc.text), "strict", `{"n": 7}`, func(f *form, m *strict.Mapping) {
				m.NullIsFault = tc.nullIsFault
				f.n, _ = strict.Take(m, "n", "N", func(n int) bool { return n == 7 })
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

// An error keeps at most 20 findings.
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
	assert.Len(t, faults.Findings(), 20)
	assert.ErrorContains(t, err, `"too.k9": the keys of a form are `)
}

func TestKeys(t *testing.T) {
	assert.Equal(t, []string{"n", "in", "in.m", "in.deep", "in.deep.k", "last"}, strict.Keys(func(_ *int, m *strict.Mapping) {
		strict.Take[int](m, "n", "N", nil)
		in := m.Inner("in", "a mapping")
		strict.Take[int](in, "m", "N", nil)
		deep := in.Inner("deep", "a mapping")
		strict.Take[int](deep, "k", "N", nil)
		deep.RejectRest("a deep form")
		strict.Take[int](m, "last", "N", nil)
	}))
}

// The user chooses the keys of the outer mapping. Their values are lists of mappings, and package
// retry refuses a policy in these mappings.
func TestDecodeListsAndNames(t *testing.T) {
	var names []string
	err := strict.Decode(new(int), []byte(`{"b": [{"n": 1}, null, {"n": "x"}], "a": [], "c": 7, "d": null}`), "strict", "", func(_ *int, m *strict.Mapping) {
		names = m.Keys()
		for _, key := range names {
			for _, inner := range m.List(key, "a list") {
				strict.Take[int](inner, "n", "N", nil)
				faults, path := inner.Faults("m")
				faults.Within(path, retry.Policy{MaxDelay: -1}.Validate().(*retry.PolicyError))
			}
		}
	})
	assert.Equal(t, []string{"a", "b", "c", "d"}, names)
	assert.EqualError(t, err, `strict: b[1] is null: write a list; b[0].m: max_delay is -1ns: write 0 for none, or a positive duration; b[2].n is "x": write N; b[2].m: max_delay is -1ns: write 0 for none, or a positive duration; c is 7: write a list`)
	var faults *strict.Error
	require.ErrorAs(t, err, &faults)
	finding := func(key, text string) retry.Finding {
		return retry.Finding{Code: "invalid_value", Key: key}.WithText(text)
	}
	assert.Equal(t, []retry.Finding{
		finding("b[1]", "b[1] is null: write a list"),
		finding("b[0].m.max_delay", "b[0].m: max_delay is -1ns: write 0 for none, or a positive duration"),
		finding("b[2].n", `b[2].n is "x": write N`),
		finding("b[2].m.max_delay", "b[2].m: max_delay is -1ns: write 0 for none, or a positive duration"),
		finding("c", "c is 7: write a list"),
	}, faults.Findings())
}

func TestOne(t *testing.T) {
	cause := errors.New("cause")
	err := strict.One("pkg", "a.b", "a.b is wrong", cause)
	require.EqualError(t, err, "pkg: a.b is wrong")
	require.ErrorIs(t, err, cause)
	want := []retry.Finding{retry.Finding{Code: "invalid_value", Key: "a.b"}.WithText("a.b is wrong")}
	assert.Equal(t, want, err.Findings())
	err.Findings()[0] = retry.Finding{}
	assert.Equal(t, want, err.Findings(), "Findings returns a copy")
}
