package noetl

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry/retryflow"
)

// attempts reads the value of k, which is a number of attempts or an expression that computes the
// number. If the key is missing, k is nil, and the result is the parameter `absent`.
func (r *reader) attempts(k *key, absent int, d dialect) (int, attempts) {
	if k == nil {
		return absent, nil
	}
	n := resolve(k.value)
	if isText(n) {
		if attempts, err := wholeNumber(n.Value); err == nil && attempts >= 1 {
			return attempts, nil
		}
		if strings.Contains(n.Value, "{") {
			t := r.expression(k)
			return 0, func(o retryflow.Outcome) (int, error) { return t.attempts(d.names(o)) }
		}
	}
	var attempts int
	if n.Tag != "!!int" || n.Decode(&attempts) != nil || attempts < 1 {
		r.fault(k.place, "%s is %s: %s", k.name, describe(n), writeAttempts)
	}
	return attempts, nil
}

// delay reads the value of k, which is a number of seconds or an expression that computes the
// number. If the key is missing, k is nil, and the result is the parameter `absent`.
func (r *reader) delay(k *key, absent time.Duration, d dialect) (time.Duration, delay) {
	if k == nil {
		return absent, nil
	}
	n := resolve(k.value)
	if isText(n) && strings.Contains(n.Value, "{") {
		t := r.expression(k)
		return 0, func(o retryflow.Outcome) (time.Duration, error) { return t.delay(d.names(o)) }
	}
	return r.seconds(k, writeDelay), nil
}

// seconds reads a number of seconds.
func (r *reader) seconds(k *key, write string) time.Duration {
	n := resolve(k.value)
	f, err := number(n)
	var d time.Duration
	if err == nil {
		d, err = seconds(f)
	}
	if err != nil {
		r.fault(k.place, "%s is %s: %s", k.name, describe(n), write)
	}
	return d
}

func wholeNumber(text string) (int, error) { return strconv.Atoi(strings.TrimSpace(text)) }

// number reads a number, or a text that is a number.
func number(n *yaml.Node) (f float64, err error) {
	switch {
	case isText(n):
		return parseNumber(n.Value)
	case n.Tag == "!!int" || n.Tag == "!!float":
		err = n.Decode(&f)
		return f, err
	default:
		return 0, errors.New("not a number")
	}
}

// parseNumber reads a decimal number. It refuses the other forms that Go accepts, such as 0x1p4.
func parseNumber(text string) (float64, error) {
	text = strings.TrimSpace(text)
	if strings.Trim(text, "+-.0123456789eE") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(text, 64)
}

// maxSeconds is the longest time.Duration in seconds, about 292 years.
const maxSeconds = math.MaxInt64 / int64(time.Second)

// seconds returns f seconds as a duration, rounded to nanoseconds.
func seconds(f float64) (time.Duration, error) {
	if !(f >= 0 && f <= float64(maxSeconds)) {
		return 0, fmt.Errorf("%v is not a number of seconds from 0 to %d", f, maxSeconds)
	}
	return time.Duration(math.Round(f * float64(time.Second))), nil
}
