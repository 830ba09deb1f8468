package retrydialect

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/strict"
)

// Temporal is a retry policy of Temporal, with the names that its SDKs and its
// API use. Its JSON is what the API reads:
//
//	{"initialInterval": "0.2s", "backoffCoefficient": 2, "maximumInterval": "5s", "maximumAttempts": 5}
type Temporal struct {
	InitialInterval    time.Duration // the first delay
	BackoffCoefficient float64       // each delay is this many times the one before
	MaximumInterval    time.Duration // the longest delay
	MaximumAttempts    int           // attempts in all; 0: unlimited
}

// ToTemporal returns p as a retry policy of Temporal, so that its server
// retries by itself.
//
// The result is exact, or ToTemporal returns an error that names every field of p
// that Temporal cannot express. Temporal waits
//
//	min(InitialInterval * BackoffCoefficient^(attempt-1), MaximumInterval)
//
// without jitter. So p needs a Fixed or Exponential backoff, no Jitter, and no
// delay longer than 100 years, because the server cuts it to that. Each delay is
// then p's to within 1ns, or for delays of months to within one part in 2^50; the
// server's timers may add to it. A p that makes only one attempt needs no backoff.
//
// If an activity returns its own NextRetryDelay, Temporal waits that long, whatever
// its length. p's Source and Wait are not used: the server draws nothing, and waits
// itself.
func ToTemporal(p retry.Policy) (Temporal, error) {
	const of = "retrydialect: Temporal"
	if err := p.Validate(); err != nil {
		return Temporal{}, fmt.Errorf("%s: %w", of, err)
	}
	var f strict.Faults
	t := temporalOf(&f, p)
	if err := f.Err(of); err != nil {
		return Temporal{}, err
	}
	return t, nil
}

// MarshalJSON writes t in the form of Temporal's API.
func (t Temporal) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		InitialInterval    protoTime `json:"initialInterval,omitzero"`
		BackoffCoefficient float64   `json:"backoffCoefficient,omitzero"`
		MaximumInterval    protoTime `json:"maximumInterval,omitzero"`
		MaximumAttempts    int       `json:"maximumAttempts,omitzero"`
	}{protoTime(t.InitialInterval), t.BackoffCoefficient, protoTime(t.MaximumInterval), t.MaximumAttempts})
}

var temporal = target{"Temporal", map[string]string{
	"RetryAfter":     "Temporal always waits for a NextRetryDelay, however short",
	"MaxRetryAfter":  "Temporal waits for a NextRetryDelay of any length",
	"MaxElapsed":     "ScheduleToCloseTimeout is the nearest, and ends a running attempt too",
	"AttemptTimeout": "set StartToCloseTimeout",
	"HealthyAfter":   "Temporal never counts an activity anew; return from one that lives long, and start another",
	"RetryIf":        "return a non-retryable ApplicationError",
	"Classify":       "Temporal has one policy for all errors",
	"Budget":         "Temporal has none",
	"OnEvent":        "the server reports no retries to the worker",
}}

// temporalLongest is the duration to which the server cuts longer ones.
const temporalLongest = 100 * 365 * 24 * time.Hour

func temporalOf(f *strict.Faults, p retry.Policy) (t Temporal) {
	temporal.unsayable(f, &p)
	limit := p.EffectiveMax()
	if limit > math.MaxInt32 {
		f.Add("MaxAttempts (max_attempts)", fmt.Sprint(limit, " in effect"), fmt.Sprintf("at most %d, or -1 for unlimited", math.MaxInt32))
	}
	if limit == 1 {
		return Temporal{MaximumAttempts: 1}
	}
	if j := p.Jitter; j != nil && j != retry.Proportional(0) {
		f.Add("Jitter (jitter)", jitterText(j), "nil (0), because Temporal has none")
	}
	first, factor := geometric(f, &p)
	if first == 0 {
		return t
	}

	t.BackoffCoefficient, t.MaximumAttempts = factor, limit
	last := limit - 1
	if limit == retry.Unlimited {
		t.MaximumAttempts, last = 0, math.MaxInt
	}
	longest := p.Backoff.Delay(last)
	if p.MaxDelay > 0 {
		first, longest = min(first, p.MaxDelay), min(longest, p.MaxDelay)
	}
	if longest > temporalLongest {
		f.Add("MaxDelay (max_delay)", p.MaxDelay, fmt.Sprintf("at most %v, 100 years, where Temporal cuts (the delays reach %v)", temporalLongest, longest))
	}
	t.InitialInterval, t.MaximumInterval = first, longest
	return t
}
