package retry

import (
	"strconv"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// A Jitter spreads delays, so that callers that failed together do not come
// back together. Window returns the range from which the actual delay is drawn
// uniformly. It must be pure: the same d always gets the same window, from any
// number of goroutines at once.
//
// [Policy] cuts the window to MaxDelay before it draws. A window with lo > hi or
// negative bounds is corrected, and one that starts at MaxDelay or above is
// moved below it. So no delay exceeds MaxDelay, and callers at the cap still
// differ.
type Jitter interface {
	Window(d time.Duration) (lo, hi time.Duration)
}

// Proportional spreads a delay by up to this share of itself, either way: 0.2
// is ±20 %. 0 is none. A share below 0, above 1 or NaN is invalid, and is treated
// as 0, 1 or 0.
type Proportional float64

// Window returns d - j*d and d + j*d.
func (j Proportional) Window(d time.Duration) (lo, hi time.Duration) {
	d = max(0, d)
	w := min(d, saturate.Float(float64(d)*float64(j)))
	return d - w, saturate.Add(d, w)
}

// A Spread is a window that ends at the delay: [FullJitter] or [EqualJitter]. 0 is none.
// Any other value is invalid, and is treated as 0.
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

// String returns "full" or "equal", as in the text form of a policy, "none" for 0, and
// otherwise a text such as "Spread(3)".
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
