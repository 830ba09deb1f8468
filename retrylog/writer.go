package retrylog

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/goretry/retry"
)

// A Writer writes each event as a line of JSON with one call of Write. It is safe for concurrent
// use.
type Writer struct {
	mu  sync.Mutex // guards the fields below
	w   io.Writer
	err error
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// OnEvent writes e. Use it as the OnEvent of policies. After an error, OnEvent writes nothing
// more: Replay can read a log that is cut off, but not a log that lacks an event in the middle.
func (w *Writer) OnEvent(ctx context.Context, e retry.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	line, err := recordOf(ctx, e).MarshalJSON() // json.Marshal would check the result once more
	if err == nil {
		_, err = w.w.Write(append(line, '\n'))
	}
	if err != nil {
		w.err = fmt.Errorf("retrylog: %w", err)
	}
}

// Err returns the first error, after which OnEvent writes nothing more. It returns nil if no
// error has occurred.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
