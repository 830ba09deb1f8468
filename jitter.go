package retry

import (
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// A Jitter says how far a delay may be moved, so that callers that failed
// together do not come back together. Window returns the least and the
// greatest delay that may stand for d; one of them is drawn, each as likely as
// the next. It must be pure: the same d always gets the same window, from any
// number of goroutines at once.
//
// [Policy] cuts the window to MaxDelay before it draws. A window that is
// upside down or negative is put right, and one that starts at MaxDelay or
// above is moved below it, so that the cap always holds and never becomes the
// one delay that everybody gets.
type Jitter interface {
	Window(d time.Duration) (lo, hi time.Duration)
}

// Proportional moves a delay by up to this share of itself, either way: 0.2 is
// ±20 %. 0 is none. Below 0, above 1 and NaN do not validate, and count as 0,
// 1 and 0.
type Proportional float64

// Window returns d - j*d and d + j*d.
func (j Proportional) Window(d time.Duration) (lo, hi time.Duration) {
	d = max(0, d)
	w := min(d, saturate.Float(float64(d)*float64(j)))
	return d - w, saturate.Add(d, w)
}

// A spread is a window from some share of the delay up to the delay.
type spread uint8

// The jitters of Brooker, "Exponential Backoff And Jitter" (AWS Architecture
// Blog, 2015).
const (
	FullJitter  spread = iota + 1 // anything from 0 to the delay
	EqualJitter                   // half of the delay at least
)

// Window returns the window of FullJitter or EqualJitter.
func (s spread) Window(d time.Duration) (lo, hi time.Duration) {
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

func (s spread) String() string {
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

// SeedOf returns the seed that stands for a key, such as the id of a job, so
// that whoever knows the key can compute its delays again. It is the FNV-1a
// 64-bit hash of the key's bytes, mixed by the finalizer of splitmix64, and
// never 0.
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

// draw picks the delay of an attempt from its window, lo <= hi, both included.
// It multiplies instead of taking a remainder, which would favour the low end:
// Lemire, "Fast Random Integer Generation in an Interval" (2019).
func draw(seed uint64, attempt int, lo, hi time.Duration) time.Duration {
	n, _ := bits.Mul64(mix(seed, uint64(attempt)), uint64(hi-lo)+1)
	return lo + time.Duration(n)
}

// window returns the least and the greatest delay after an attempt: the curve,
// cut to the cap, spread by the jitter inside the cap, raised to what a server
// asked for.
func (p *Policy) window(attempt int, hint time.Duration) (lo, hi time.Duration) {
	if p.Backoff != nil {
		lo = p.capped(max(0, p.Backoff.Delay(attempt)))
	}
	hi = lo
	if p.Jitter != nil {
		lo, hi = p.spread(lo)
	}
	if hi > p.capped(hi) {
		if lo >= p.MaxDelay {
			lo = max(0, p.MaxDelay-(hi-lo))
		}
		hi = p.MaxDelay
	}
	if hint > lo {
		// Clients that were told the same wait must not return together, and
		// none may return early: the jitter only adds.
		width := time.Duration(0)
		if p.Jitter != nil {
			from, to := p.spread(hint)
			width = p.capped(to - from)
		}
		lo, hi = hint, max(hi, saturate.Add(hint, width))
	}
	return lo, hi
}

// capped returns d, or MaxDelay if that is shorter.
func (p *Policy) capped(d time.Duration) time.Duration {
	if p.MaxDelay > 0 && p.MaxDelay < d {
		return p.MaxDelay
	}
	return d
}

// spread returns the jitter's window around d, put right where a third
// party's is upside down or negative.
func (p *Policy) spread(d time.Duration) (lo, hi time.Duration) {
	lo, hi = p.Jitter.Window(d)
	return max(0, min(lo, hi)), max(0, lo, hi)
}
