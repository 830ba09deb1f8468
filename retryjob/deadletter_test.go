package retryjob_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

func TestTheDeadLetterOfAnOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now().Add(-time.Minute)
		job := retryjob.Job{Key: "mail-7", Attempt: 3, Began: began}
		o := retryjob.Decide(t.Context(), retry.Policy{MaxAttempts: 3}, job, errBoom)
		d := o.DeadLetter(job)
		assert.Equal(t, retryjob.DeadLetter{Key: "mail-7", Reason: retry.ReasonExhausted, Attempts: 3, Err: o.Err.Error(),
			Began: began.UTC().Round(0), Ended: time.Now().UTC().Round(0)}, d)

		text, err := json.Marshal(d)
		require.NoError(t, err)
		assert.JSONEq(t, `{"key":"mail-7","reason":"attempts_exhausted","attempts":3,"err":"retry: attempts exhausted after 3 attempts: boom",
			"began":"1999-12-31T23:59:00Z","ended":"2000-01-01T00:00:00Z"}`, string(text))
		var read retryjob.DeadLetter
		require.NoError(t, json.Unmarshal(text, &read))
		assert.Equal(t, d, read)
	})
}

// Whatever the key, the error and the times of a job are, JSON can express the dead letter, and
// every database can store it.
func TestADeadLetterCanBeStored(t *testing.T) {
	for name, row := range map[string]struct {
		job retryjob.Job
		err error
	}{
		"NUL and bytes":  {retryjob.Job{Key: "a\x00\xff"}, errors.New("no\x00\xff")},
		"nothing":        {retryjob.Job{}, nil},
		"a distant past": {retryjob.Job{Began: time.Unix(math.MinInt32*1000, 0)}, errBoom},
		"the year 10000": {retryjob.Job{Began: time.Unix(math.MaxInt32*1000, 0)}, errBoom},
	} {
		t.Run(name, func(t *testing.T) {
			d := retryjob.Outcome{Reason: retry.ReasonPermanent, Err: row.err}.DeadLetter(row.job)
			text, err := json.Marshal(d)
			require.NoError(t, err)
			assert.NotContains(t, string(text), `\u0000`)
			assert.NotContains(t, string(text), "began")
			var read retryjob.DeadLetter
			require.NoError(t, json.Unmarshal(text, &read))
			assert.Equal(t, d, read)
		})
	}
}

// The limit is the same for all queues. It is in bytes, and applies after invalid bytes were
// replaced.
func TestTextOf(t *testing.T) {
	x := strings.Repeat("x", 8<<10)
	for name, row := range map[string]struct {
		err  error
		want string
	}{
		"nil":                    {nil, ""},
		"short":                  {errBoom, "boom"},
		"NUL and bytes":          {errors.New("a\x00b\xff"), "a\uFFFDb\uFFFD"},
		"8 KiB":                  {errors.New(x), x},
		"one byte more":          {errors.New(x + "y"), x},
		"a megabyte":             {errors.New(strings.Repeat(x, 128)), x},
		"a character at the cut": {errors.New(x[1:] + "\u00e9"), x[1:]},
		"8 KiB of NUL":           {errors.New(strings.Repeat("\x00", 8<<10)), strings.Repeat("\uFFFD", 8<<10/3)},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.want, retryjob.TextOf(row.err))
			assert.Equal(t, row.want, retryjob.Outcome{Err: row.err}.DeadLetter(retryjob.Job{}).Err)
		})
	}
}

func TestReadingADeadLetter(t *testing.T) {
	for name, row := range map[string]struct{ text, again, err string }{
		"unknown keys are kept":    {`{"reason":"tired","Reason":"x","by":{"host":"a"},"n":12345678901234567890}`, `{"key":"","reason":"tired","attempts":0,"err":"","Reason":"x","by":{"host":"a"},"n":12345678901234567890}`, ""},
		"the reason is missing":    {`{"key":"a"}`, "", `not a dead letter: the key "reason" is missing or empty`},
		"the reason is empty":      {`{"reason":""}`, "", `the key "reason" is missing`},
		"null":                     {`null`, "", `the key "reason" is missing`},
		"not an object":            {`[]`, "", "retryjob: dead letter: json: cannot unmarshal array"},
		"attempts that are a text": {`{"reason":"tired","attempts":"3"}`, "", `key "attempts"`},
		"an invalid time":          {`{"reason":"tired","ended":"soon"}`, "", `key "ended"`},
	} {
		t.Run(name, func(t *testing.T) {
			before := retryjob.DeadLetter{Key: "before"}
			d := before
			err := json.Unmarshal([]byte(row.text), &d)
			if row.err != "" {
				assert.ErrorContains(t, err, row.err)
				assert.Equal(t, before, d)
				return
			}
			require.NoError(t, err)
			again, err := json.Marshal(d)
			require.NoError(t, err)
			assert.JSONEq(t, row.again, string(again))
		})
	}
}
