package retry

import (
	"strconv"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// A Jitter widens a delay to a window, so that callers that failed together do not retry together.
// The actual delay is drawn at random from the window that Window returns. Window must be pure: it
// must always return the same window for the same d, even if several goroutines call Window at
// once.
//
// A [Policy] cuts the window at MaxDelay before it draws a delay. If the whole window is above
// MaxDelay, the Policy moves the window until it ends at MaxDelay. With a MaxDelay of 5s, a
// window from 6s to 8s becomes a window from 3s to 5s. So no delay of the window exceeds
// MaxDelay, and callers at MaxDelay still get different delays. The Policy corrects a window
// with lo > hi or with negative ends.
type Jitter interface {
	Window(d time.Duration) (lo, hi time.Duration)
}

// A Proportional is a fraction of a delay. As a Jitter, it makes each delay shorter or longer by up
// to this fraction: 0.2 is ±20 %. 0 is no jitter. In a Policy, a fraction below 0, above 1 or NaN
// is invalid. Outside of a Policy, a fraction above 1 is treated as 1. A fraction below 0 and NaN
// are treated as 0.
type Proportional float64

// Window returns d - j*d and d + j*d.
func (j Proportional) Window(d time.Duration) (lo, hi time.Duration) {
	d = max(0, d)
	w := min(d, saturate.Float(float64(d)*float64(j)))
	return d - w, saturate.Add(d, w)
}

// A Spread is a Jitter whose window ends at the delay. The values are [FullJitter] and
// [EqualJitter]. 0 is no jitter. In a Policy, any other value is invalid. Outside of a Policy,
// any other value is treated as 0.
type Spread uint8

// These jitters are from Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog,
// 2015).
const (
	FullJitter  Spread = iota + 1 // the window is from 0 to the delay
	EqualJitter                   // the window is from half the delay to the delay
)

// Window returns [0, d] for FullJitter and [d/2, d] for EqualJitter.
func (s Spread) Window(d time.Duration) (lo, hi time.Duration) {
	d = max(0, d)
	switch s {
	case FullJitter:
		return 0, d
	case EqualJitter:
		return d / 2, d
	default:
		return d, d
	}
}

// String returns "full" or "equal", as in the text form of a policy. It returns "none" for 0,
// and a text such as "Spread(3)" for an invalid value.
func (s Spread) String() string {
	switch s {
	case FullJitter:
		return "full"
	case EqualJitter:
		return "equal"
	case 0:
		return "none"
	default:
		return "Spread(" + strconv.Itoa(int(s)) + ")"
	}
}
