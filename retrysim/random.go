package retrysim

import (
	"fmt"
	"math"
	"math/bits"
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

// below returns a number from 0 to n, without n.
func (s stream) below(n uint32) uint32 {
	hi, _ := bits.Mul64(s.Uint64(), uint64(n))
	return uint32(hi)
}

// exponential returns a time with this mean.
func (s stream) exponential(mean float64) int64 { return whole(mean * s.exp1()) }

// exp1 returns an exponential number with mean 1: -ln of a number from 0 to 1,
// without 0. That is (1 + f) 2^e, whose logarithm is read from a table for the first
// ten bits of f; three terms of a series add the rest.
func (s stream) exp1() float64 {
	k := s.Uint64()>>11 + 1 // 1 to 2^53
	e := bits.Len64(k) - 1
	f := k << (63 - e) << 1 // without its first bit, at the top of the word
	cell := &logs[f>>54]
	r := float64(float64(f<<10>>11) * (1.0 / (1 << 63)) * cell.inverse) // below 2^-10
	series := r - float64(r*r)*(0.5-float64(r*(1.0/3)))
	return float64(float64(53-e)*math.Ln2) - (cell.log + series)
}

// logs has the logarithms of 1 + i/1024.
var logs = func() (table [1024]struct{ log, inverse float64 }) {
	for i := range table {
		x := float64(i) / 1024
		z := x / (2 + x) // ln(1 + x) = 2 (z + z^3/3 + z^5/5 + ...)
		sum, power := 0.0, z
		for n := 1; n < 40; n += 2 {
			sum += power / float64(n)
			power = float64(power * float64(z*z))
		}
		table[i].log, table[i].inverse = 2*sum, 1/(1+x)
	}
	return table
}()

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
