package retry

import (
	"strconv"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// A Jitter widens a delay to a window, so that callers that failed together do not retry
// together. Window returns the window from which the actual delay is drawn uniformly. Window
// must be pure: the same d always gets the same window, also if several goroutines call
// Window at once.
//
// A [Policy] cuts the window at MaxDelay before it draws a delay. If the window starts at
// MaxDelay or above, the window is moved below MaxDelay. So no delay of the window exceeds
// MaxDelay, and callers at MaxDelay still get different delays. A window with lo > hi or
// with negative bounds is corrected.
type Jitter interface {
	Window(d time.Duration) (lo, hi time.Duration)
}

// Proportional makes a delay shorter or longer by up to this share of the delay: 0.2 is
// ±20 %. 0 is no jitter. In a Policy, a share below 0, above 1 or NaN is invalid. Elsewhere
// a share below 0 and NaN are treated as 0, and a share above 1 as 1.
type Proportional float64

// Window returns d - j*d and d + j*d.
func (j Proportional) Window(d time.Duration) (lo, hi time.Duration) {
	d = max(0, d)
	w := min(d, saturate.Float(float64(d)*float64(j)))
	return d - w, saturate.Add(d, w)
}

// A Spread is a window that ends at the delay: [FullJitter] or [EqualJitter]. 0 is no
// jitter. In a Policy, any other value is invalid. Elsewhere it is treated as 0.
type Spread uint8

// The jitters of Brooker, "Exponential Backoff And Jitter" (AWS Architecture
// Blog, 2015).
const (
	FullJitter  Spread = iota + 1 // from 0 to the delay
	EqualJitter                   // from half the delay to the delay
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

// String returns "full" or "equal", as the text form of a policy writes them. It returns
// "none" for 0, and a text such as "Spread(3)" for an invalid value.
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
