package retrysim

import (
	"fmt"
	"math/rand/v2"

	"github.com/goretry/retry"
)

// What is random must be the same on every platform. So there is no math.Log, which
// is not the same to the last bit, and every product is converted before a sum takes
// it, because a processor may fuse the two and round once.

// A stream is one source of random numbers. Each service has several, so that a
// policy that draws more numbers does not change when calls arrive.
type stream struct{ *rand.PCG }

func newStream(seed uint64, service, use string) stream {
	text := fmt.Sprintf("%d %s %s", seed, use, service)
	return stream{rand.NewPCG(retry.SeedOf(text), retry.SeedOf(text+" "))}
}

// share returns a number from 0 to 1, without 1.
func (s stream) share() float64 { return float64(s.Uint64()>>11) / (1 << 53) }

// exponential returns a time with this mean, by the method of von Neumann. It draws
// numbers until one is above the one before. If that is the second, the fourth and so
// on, the first number is the result, as a share of the mean. Otherwise it draws again,
// and the result is longer by the mean.
func (s stream) exponential(mean float64) int64 {
	for means := 0.0; ; means++ {
		first := s.Uint64()
		n := 1
		for last, next := first, s.Uint64(); next < last; n++ {
			last, next = next, s.Uint64()
		}
		if n%2 == 1 {
			return whole(mean * (means + float64(first>>11)/(1<<53)))
		}
	}
}

// normal returns a time with this mean and a quarter of it as the standard
// deviation: twelve numbers from 0 to 1 have the sum 6, with a standard deviation of
// 1. A sum that would be negative is 0.
func (s stream) normal(mean float64) int64 {
	sum := uint64(0)
	for range 3 {
		x := s.Uint64()
		sum += x&0xffff + x>>16&0xffff + x>>32&0xffff + x>>48
	}
	deviation := float64(sum)/(1<<16) + 12.0/(1<<17) - 6
	return whole(mean * max(0, 1+float64(0.25*deviation)))
}

// whole rounds a time to whole nanoseconds. What is longer than a simulation can be
// is cut, so that the end of a wait never overflows.
func whole(d float64) int64 {
	const longest = 1 << 61
	if d >= longest {
		return longest
	}
	return int64(d + 0.5)
}
