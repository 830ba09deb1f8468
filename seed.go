package retry

import (
	"math/bits"
	"math/rand/v2"
	"time"
)

// Draw draws a delay from lo to hi. The same arguments always give the same delay, so Draw can
// compute the delay of a [Decision] again: d.Delay is Draw(d.Seed, d.Number, d.Lo, d.Hi). An
// [Event] and a log line contain these four values too. If lo is not negative, every delay from
// lo to hi is equally likely, including lo and hi. If hi is not above lo, the delay is lo,
// whatever the seed is.
//
// Draw multiplies instead of taking a remainder, because a remainder would favor short delays.
// See Lemire, "Fast Random Integer Generation in an Interval" (2019).
func Draw(seed uint64, number int, lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	n, _ := bits.Mul64(mix(seed, uint64(number)), uint64(hi)-uint64(lo)+1)
	return time.Duration(uint64(lo) + n)
}

// SeedOf returns the seed for a key, such as the ID of a job. With the key, anybody can compute
// the delays again. The seed is the FNV-1a 64-bit hash of the bytes of the key, mixed by the
// finalizer of splitmix64. It is never 0.
func SeedOf(key string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 0x100000001b3
	}
	return max(1, mix(h, 0))
}

// The method `seed` draws the seed of a call. The result is never 0, because 0 means that no seed
// has been drawn yet.
func (p *Policy) seed() uint64 {
	if p.Source != nil {
		return max(1, p.Source())
	}
	return max(1, rand.Uint64())
}

// The function `mix` returns the n-th output of a splitmix64 generator with this seed. See Steele,
// Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014). The constants are
// those of Vigna's splitmix64.c.
func mix(seed, n uint64) uint64 {
	z := seed + n*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
