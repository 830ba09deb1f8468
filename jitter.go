package retry

import (
	"math/rand/v2"
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
// moved below it. So the cap always holds, and never becomes the one delay that
// every caller gets.
type Jitter interface {
	Window(d time.Duration) (lo, hi time.Duration)
}

// Proportional spreads a delay by up to this share of itself, either way: 0.2
// is ±20 %. 0 is none. Below 0, above 1 and NaN do not validate, and count as 0,
// 1 and 0.
type Proportional float64

// Window returns d - j*d and d + j*d.
func (j Proportional) Window(d time.Duration) (lo, hi time.Duration) {
	d = max(0, d)
	w := min(d, saturate.Float(float64(d)*float64(j)))
	return d - w, saturate.Add(d, w)
}

// A Spread is a window that ends at the delay: [FullJitter] or [EqualJitter].
// Any other value does not validate, and counts as none.
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

// String returns "full" or "equal", as in the text form of a policy, and else
// "none".
func (s Spread) String() string {
	switch s {
	case FullJitter:
		return "full"
	case EqualJitter:
		return "equal"
	default:
		return "none"
	}
}

// A Source draws the seed of a call. It must be safe for concurrent use where
// its Policy is: *rand.Rand of math/rand/v2 is not, and needs a lock.
type Source interface {
	Uint64() uint64
}

// seed draws the seed of a call. It is never 0, which stands for none drawn.
func (p *Policy) seed() uint64 {
	next := rand.Uint64
	if p.Source != nil {
		next = p.Source.Uint64
	}
	return max(1, next())
}

// SeedOf returns the seed for a key, such as the ID of a job, so that anyone who
// knows the key can compute its delays again. It is the FNV-1a 64-bit hash of
// the key's bytes, mixed by the finalizer of splitmix64, and never 0.
func SeedOf(key string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 0x100000001b3
	}
	return max(1, mix(h, 0))
}

// mix returns the n-th output of the splitmix64 generator seeded with seed:
// Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA
// 2014), with the constants of Vigna's splitmix64.c.
func mix(seed, n uint64) uint64 {
	z := seed + n*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
