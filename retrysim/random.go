package retrysim

import (
	"fmt"
	"math/rand/v2"

	"github.com/goretry/retry"
)

// Random numbers must be the same on every platform. So this file does not use math.Log, whose last
// bit differs between platforms. It also converts each product to float64 before adding it. Without
// the conversion, some processors would fuse the multiplication and the addition, and round once
// instead of twice.

// A stream is a source of random numbers. Each service has several streams. One stream draws the
// times at which calls arrive, and another stream draws the seeds of the delays. So two runs with
// the same seed and different policies have the same arrivals.
type stream struct{ *rand.PCG }

func newStream(seed uint64, service, use string) stream {
	text := fmt.Sprintf("%d %s %s", seed, use, service)
	return stream{rand.NewPCG(retry.SeedOf(text), retry.SeedOf(text+" "))}
}

// The method `share` returns a random number that is at least 0 and below 1.
func (s stream) share() float64 { return float64(s.Uint64()>>11) / (1 << 53) }

// The method `exponential` returns an exponentially distributed time with this mean, by the method
// of von Neumann. It draws numbers as long as each number is smaller than the number before it. If
// the length of this decreasing sequence is odd, its first number is the result, as a share of the
// mean. If the length is even, `exponential` draws a new sequence and adds the mean to the result.
func (s stream) exponential(mean float64) int64 {
	for means := 0.0; ; means++ {
		first := s.Uint64()
		n := 1
		for last, next := first, s.Uint64(); next < last; n++ {
			last, next = next, s.Uint64()
		}
		if n%2 == 1 {
			return nanoseconds(mean * (means + float64(first>>11)/(1<<53)))
		}
	}
}

// The method `normal` returns a normally distributed time with this mean, and a quarter of the mean
// as the standard deviation. It adds twelve numbers between 0 and 1: their sum has the mean 6 and
// the standard deviation 1. A negative time becomes 0.
func (s stream) normal(mean float64) int64 {
	sum := uint64(0)
	for range 3 {
		x := s.Uint64()
		sum += x&0xffff + x>>16&0xffff + x>>32&0xffff + x>>48
	}
	deviation := float64(sum)/(1<<16) + 12.0/(1<<17) - 6
	return nanoseconds(mean * max(0, 1+float64(0.25*deviation)))
}

// The function `nanoseconds` rounds a time to whole nanoseconds. The result is at most 2^61 ns, so
// that adding it to the present time never overflows. No simulation is that long.
func nanoseconds(d float64) int64 {
	const longest = 1 << 61
	if d >= longest {
		return longest
	}
	return int64(d + 0.5)
}
