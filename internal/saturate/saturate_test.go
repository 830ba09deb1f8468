package saturate_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry/internal/saturate"
)

var durations = []time.Duration{
	0, 1, 2, 3, time.Second, time.Hour, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<53 + 1,
	1<<62 - 1, 1 << 62, 1<<62 + 1, math.MaxInt64/3 + 1, math.MaxInt64 - 1, math.MaxInt64,
}

// plain returns x as a duration, or the longest duration if x does not fit.
func plain(x *big.Int) time.Duration {
	if !x.IsInt64() {
		return math.MaxInt64
	}
	return time.Duration(x.Int64())
}

func TestFloat(t *testing.T) {
	for _, row := range []struct {
		f    float64
		want time.Duration
	}{
		{0, 0},
		{math.Copysign(0, -1), 0},
		{math.SmallestNonzeroFloat64, 0},
		{.999, 0},
		{math.Nextafter(1, 0), 0},
		{1, 1},
		{1.999, 1},
		{1e9 + .5, time.Second},
		{1<<53 + 2, 1<<53 + 2},
		{math.Nextafter(1<<63, 0), 1<<63 - 1<<10},
		{1 << 63, math.MaxInt64},
		{math.Nextafter(1<<63, math.Inf(1)), math.MaxInt64},
		{1 << 64, math.MaxInt64},
		{math.MaxFloat64, math.MaxInt64},
		{math.Inf(1), math.MaxInt64},
		{-.5, 0},
		{-1, 0},
		{-1 << 63, 0},
		{-math.MaxFloat64, 0},
		{math.Inf(-1), 0},
		{math.NaN(), 0},
	} {
		assert.Equal(t, row.want, saturate.Float(row.f), "%v", row.f)
	}
}

// Each duration is added to each other duration, and multiplied by each factor.
func FuzzSaturate(f *testing.F) {
	factors := []uint64{math.MaxInt64 + 1, math.MaxUint64 - 1, math.MaxUint64}
	for _, d := range durations {
		factors = append(factors, uint64(d))
	}
	for _, d := range durations {
		for _, n := range factors {
			f.Add(int64(d), int64(n), n, float64(d))
		}
	}
	f.Fuzz(func(t *testing.T, a, b int64, n uint64, x float64) {
		a, b = a&math.MaxInt64, b&math.MaxInt64
		if got, want := saturate.Add(time.Duration(a), time.Duration(b)), plain(new(big.Int).Add(big.NewInt(a), big.NewInt(b))); got != want {
			t.Fatalf("%d + %d = %d, want %d", a, b, got, want)
		}
		if got, want := saturate.Mul(n, time.Duration(a)), plain(new(big.Int).Mul(new(big.Int).SetUint64(n), big.NewInt(a))); got != want {
			t.Fatalf("%d * %d = %d, want %d", n, a, got, want)
		}
		want := time.Duration(0)
		if x > 0 {
			whole, _ := big.NewFloat(math.Min(x, 1<<63)).Int(nil)
			want = plain(whole)
		}
		if got := saturate.Float(x); got != want {
			t.Fatalf("%v is %d, want %d", x, got, want)
		}
	})
}
