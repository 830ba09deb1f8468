package retrytemporal_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrytemporal"
	"github.com/goretry/retry/retryjob"
)

// An error may have any number of details in any encoding, before the dead letter or in its
// place. The error may also come from a workflow's history.
func TestDeadLetterOf(t *testing.T) {
	garbage := converter.NewRawValue(&common.Payload{Metadata: map[string][]byte{"encoding": []byte("moon")}, Data: []byte{0xff}})
	letter := retryjob.DeadLetter{Reason: retry.ReasonExhausted, Attempts: 4}
	with := func(details ...any) error { return temporal.NewApplicationError("x", "X", details...) }
	arrived := func(details ...any) error { return sent(t, with(details...)) }
	for name, tc := range map[string]struct {
		err error
		ok  bool
	}{
		"a letter":                               {arrived(letter), true},
		"a dead letter of a newer version":       {arrived(map[string]any{"reason": "too_tired", "attempts": 4, "moon": "full"}), true},
		"garbage before the dead letter":         {arrived(garbage, letter), true},
		"100,000 details before the dead letter": {arrived(append(slices.Repeat([]any{7}, 100_000), letter)...), true},
		"null before the dead letter":            {arrived(nil, letter), true},
		"garbage":                                {arrived(letter, garbage), false},
		"null":                                   {arrived(letter, nil), false},
		"no attempts":                            {arrived(map[string]any{"reason": "deadline"}), false},
		"negative attempts":                      {arrived(map[string]any{"reason": "deadline", "attempts": -1}), false},
		"attempts beyond an int":                 {arrived(map[string]any{"reason": "deadline", "attempts": 1e300}), false},
		"a reason that is no text":               {arrived(map[string]any{"reason": 7, "attempts": 1}), false},
		"a time of the year 10,000":              {arrived(map[string]any{"reason": "deadline", "attempts": 1, "began": "10000-01-01T00:00:00Z"}), false},
		"nil":                                    {nil, false},
		"a plain error":                          {errBoom, false},
		"an error without details":               {with(), false},
		"an error with other details":            {with(7, "text"), false},
		"an error with another mapping":          {with(map[string]int{"a": 1}), false},
		"an error with another reason":           {arrived(map[string]string{"reason": "no stock"}), false},
		"a last attempt that was lost": {temporal.NewTimeoutError(enums.TIMEOUT_TYPE_START_TO_CLOSE,
			with(retryjob.DeadLetter{Reason: retry.ReasonRetry, Attempts: 1})), false},
	} {
		d, ok := retrytemporal.DeadLetterOf(tc.err)
		assert.Equal(t, tc.ok, ok, name)
		assert.Equal(t, tc.ok, d.Attempts == 4, name)
		assert.True(t, ok || d.Attempts == 0, name)
	}
}
