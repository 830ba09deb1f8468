package retrytest

import (
	"fmt"
	"time"
)

// A window holds the shortest and the longest delay that may be drawn.
type window struct{ lo, hi time.Duration }

func (w window) String() string {
	if w.lo == w.hi {
		return w.lo.String()
	}
	return fmt.Sprintf("%v to %v", w.lo, w.hi)
}
