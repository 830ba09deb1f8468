package strict_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry/internal/strict"
)

// If an unknown key is similar to a known key, the error says which key to write. Otherwise it lists
// the known keys.
func TestUnknownKeyThatIsMisspelled(t *testing.T) {
	const keys = ": the keys of a form are max_attempts, max_delay"
	for text, want := range map[string]string{
		`{"max_atempts": 1}`:                    `unknown key "max_atempts": write max_attempts`,
		`{"maxAttempts": 1}`:                    `unknown key "maxAttempts": write max_attempts`,
		`{"max-delay": 1}`:                      `unknown key "max-delay": write max_delay`,
		`{"limit": 1}`:                          `unknown key "limit"` + keys,
		`{"": 1}`:                               `unknown key ""` + keys,
		`{"limit": 1, "max_dely": 1, "no": 1}`:  `unknown key "max_dely": write max_delay; unknown key "limit", "no"` + keys,
		`{"in": {"bse": "1s", "limit": 1}}`:     `unknown key "in.bse": write in.base; unknown key "in.limit": the keys of an inner form are base`,
		`{"max_delay": 1, "max_delay_": 1}`:     `unknown key "max_delay_": write max_delay`,
		`{"max_dely": 1, "max_attempts": "x"}`:  `max_attempts is "x": write N; unknown key "max_dely": write max_delay`,
		`{"in": {"base": "1s", "max_dely": 1}}`: `unknown key "in.max_dely": the keys of an inner form are base`,
	} {
		t.Run(text, func(t *testing.T) {
			err := strict.Decode(new(int), []byte(text), "strict", "", func(_ *int, m *strict.Mapping) {
				strict.Take[int](m, "max_attempts", "N", nil)
				strict.Take[int](m, "max_delay", "N", nil)
				if in := m.Inner("in", "a mapping"); in != nil {
					strict.Take[string](in, "base", "T", nil)
					in.RejectRest("an inner form")
				}
				m.RejectRest("a form")
			})
			assert.ErrorContains(t, err, want)
		})
	}
}
