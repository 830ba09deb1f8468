package policyfile

import (
	"encoding/json"
	"regexp"
	"strconv"
	"time"

	"github.com/goretry/retry/cmd/retry/internal/saturate"
)

// A durationStyle says how a system writes durations.
type durationStyle struct {
	write          string
	text           *regexp.Regexp // matches the accepted durations of Go; nil accepts all
	digits, number time.Duration  // the unit of the text "30" and of the number 30; 0 if not accepted
}

var (
	protoTimes = durationStyle{
		write: `seconds as text, such as "0.2s"`,
		text:  regexp.MustCompile(`^(\d+(\.\d{0,9})?|\.\d{1,9})s$`),
	}
	temporalTimes = durationStyle{
		write: protoTimes.write + ` (the TypeScript SDK alone takes "1m" and "500 ms")`,
		text:  protoTimes.text,
	}
	goTimes   = durationStyle{write: `a duration as text, such as "200ms" or "1m30s"`}
	otelTimes = durationStyle{
		write:  `a duration as text, such as "200ms", or nanoseconds`,
		number: time.Nanosecond,
	}
	argoTimes = durationStyle{
		write:  `a duration as text, such as "30s" or "5m"`,
		digits: time.Second,
		number: time.Second,
	}
	gatewayTimes = durationStyle{
		write: `a duration as text in whole h, m, s and ms, such as "500ms" or "1m30s"`,
		text:  regexp.MustCompile(`^(\d{1,5}(h|m|s|ms)){1,4}$`),
	}
	wholeSeconds = durationStyle{
		write:  "whole seconds, such as 30",
		digits: time.Second,
		number: time.Second,
	}
	natsTimes = durationStyle{
		write:  `nanoseconds, such as 30000000000, or text, such as "30s"`,
		number: time.Nanosecond,
	}
)

// parse returns the duration in a value. It returns false if the style does not accept the value.
func (s durationStyle) parse(value json.RawMessage) (time.Duration, bool) {
	text := ""
	isText := json.Unmarshal(value, &text) == nil
	digits, unit := text, s.digits
	if !isText {
		digits, unit = string(value), s.number
	}
	if n, err := strconv.ParseUint(digits, 10, 63); err == nil && unit > 0 {
		return saturate.Mul(n, unit), true
	}
	d, err := time.ParseDuration(text)
	return d, isText && err == nil && (s.text == nil || s.text.MatchString(text))
}
