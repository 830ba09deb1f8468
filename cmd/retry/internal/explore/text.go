package explore

import (
	"fmt"
	"math"

	"github.com/goretry/retry/cmd/retry/internal/preview"
)

// number returns the parameter v as text. A number below 1,000 has one decimal, unless the number
// is whole. If the parameter `about` is true, the number depends on random draws. Then the number
// is rounded to two digits, and the text starts with "about".
func number(v float64, about bool) string {
	if about {
		unit := math.Pow(10, math.Max(0, math.Floor(math.Log10(math.Max(1, v)))-1))
		return "about " + preview.Thousands(int64(math.Round(v/unit)*unit))
	}
	if v = math.Round(v*10) / 10; v != math.Trunc(v) && v < 1000 {
		return fmt.Sprintf("%.1f", v)
	}
	return preview.Thousands(int64(math.Round(v)))
}

// counted returns n with the text `one` if n is 1, and otherwise with the text `many`, such as "2
// retries". If `about` is true, n depends on random draws: then the text is "about 2 retries". 0
// is never written as "about 0".
func counted(n int, about bool, one, many string) string {
	if n == 1 && !about {
		return "1 " + one
	}
	return number(float64(n), about && n > 0) + " " + many
}
