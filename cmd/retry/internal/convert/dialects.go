package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/strict"
	"github.com/goretry/retry/retrydialect"
)

func writeTasker(w *writer) any {
	if w.p.NonRetryable {
		return retrydialect.Tasker{Retryable: new(false)}
	}
	block := retrydialect.Tasker{MaxAttempts: &w.attempts, Backoff: curveNames[w.curve]}
	switch w.curve {
	case none:
		block.Backoff = "none"
	case fixed:
		block.Backoff, w.cap = "exponential", w.base // which its first delay has reached
	}
	if w.base > 0 {
		block.BackoffBaseMS = new(w.base.Milliseconds())
	}
	if w.cap > 0 {
		block.MaxBackoffMS = new(w.cap.Milliseconds())
	}
	return block
}

func writeArgyll(w *writer) any {
	block := retrydialect.Argyll{MaxRetries: max(retry.Unlimited, w.attempts-1), Backoff: w.base.Milliseconds(), MaxBackoff: w.cap.Milliseconds()}
	if w.curve != none {
		block.BackoffType = curveNames[w.curve]
	}
	return block
}

func writeTaskHarbor(w *writer) any {
	return retrydialect.TaskHarbor{BaseDelay: w.base, MaxDelay: w.cap, Multiplier: w.factor, Jitter: w.share(), MaxAttempts: w.attempts}
}

func writeGRPC(w *writer) any {
	if w.attempts == 1 {
		w.add("max_attempts", "1 in effect", "gRPC has no policy of one attempt: leave retryPolicy out")
		return nil
	}
	_, listed := w.p.Backoff.(retry.Schedule)
	if listed = listed && w.curve == exponential; listed {
		w.p.Backoff = retry.Exponential{Base: w.base, Factor: w.factor}
	}
	budget := w.p.Budget
	w.p.Budget = nil
	config, err := retrydialect.ToGRPC(w.p, w.Service, w.Codes...)
	w.faults = faultsIn(err)
	if listed { // gRPC's jitter goes beyond the longest delay, which no MaxDelay can say
		config = maxBackoff.ReplaceAllString(config, `"maxBackoff":"`+protoSeconds(w.cap)+`"`)
	}
	return json.RawMessage(w.throttled(config, budget))
}

// throttled adds to a service config the retryThrottling that allows as many retries in a
// row as a budget.
func (w *writer) throttled(config string, b *retry.Budget) string {
	if b == nil {
		return config
	}
	const most = 499 // of 1000 tokens
	if b.Size > most || b.Ratio < 0.001 || b.RefillEvery > 0 {
		w.add("budget", "set", "gRPC's retryThrottling has a size of at most 499, a ratio of at least 0.001, and no refill by time")
		return config
	}
	w.notes = append(w.notes, "budget: in gRPC failures that are not retried take from it, too, and an empty one needs more successes")
	return strings.TrimSuffix(config, "}") + fmt.Sprintf(`,"retryThrottling":{"maxTokens":%d,"tokenRatio":%.3g}}`, 2*b.Size+2, b.Ratio)
}

func writeTemporal(w *writer) any {
	settings, err := retrydialect.ToTemporal(w.p)
	w.faults = faultsIn(err)
	return settings
}

var maxBackoff = regexp.MustCompile(`"maxBackoff":"[^"]*"`)

// faultsIn returns the faults in an error of [Write] or of retrydialect.
func faultsIn(err error) []string {
	list := new(strict.Error)
	if err != nil && !errors.As(err, &list) {
		return []string{err.Error()}
	}
	return list.Texts
}

// nats are the fields of a JetStream consumer. Each delay is the AckWait of one
// delivery: a message is delivered again if it is not acknowledged until then,
// also while it is still being handled. A Nak delivers it again at once.
type nats struct {
	AckPolicy  string          `json:"ack_policy"` // without it, nothing is delivered again
	MaxDeliver int             `json:"max_deliver"`
	BackOff    []time.Duration `json:"backoff,omitempty"`
}

func writeNATS(w *writer) any {
	const most = 10_000
	consumer := nats{AckPolicy: "explicit", MaxDeliver: w.attempts}
	if w.attempts != 1 {
		for _, d := range w.p.Delays(most) {
			if d <= 0 {
				w.add("backoff", "a delay of 0s", "NATS redelivers after a delay above 0s only")
				break
			}
			consumer.BackOff = append(consumer.BackOff, d)
		}
	}
	consumer.BackOff = shortened(consumer.BackOff)
	if len(consumer.BackOff) == most {
		w.add("backoff", "longer than a list of 10000 delays", "set max_delay")
	}
	return consumer
}

// shortened returns a list of which the last delay repeats, without duplicates of it.
func shortened(delays []time.Duration) []time.Duration {
	for n := len(delays); n > 1 && delays[n-1] == delays[n-2]; n-- {
		delays = delays[:n-1]
	}
	return delays
}
