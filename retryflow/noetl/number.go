package noetl

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

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
