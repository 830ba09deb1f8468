package retry

import (
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// The function `short` returns d as text, rounded for people to read.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		d = d.Round(time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(time.Microsecond)
	}
	return saturate.Text(d)
}

// The function `brief` returns a duration as text without zeros at its end: 1h instead of 1h0m0s.
func brief(d time.Duration) string { return noZeros.Replace(short(d)) }

var noZeros = strings.NewReplacer("h0m0s", "h", "m0s", "m")

// The function `plural` returns n and the noun, with an s if n is not 1.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// attemptsText returns a limit on attempts as text.
func attemptsText(limit int) string {
	if limit == Unlimited {
		return "unlimited attempts"
	}
	return plural(limit, "attempt")
}
