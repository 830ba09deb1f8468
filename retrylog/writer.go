package retrylog

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/goretry/retry"
)

// A Writer writes events as lines of JSON, each by one call of Write. It is safe
// for concurrent use.
type Writer struct {
	mu  sync.Mutex // guards the fields below
	w   io.Writer
	err error
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// OnEvent writes e. Use it as the OnEvent of policies. It writes nothing after
// an error: a log with a hole cannot be replayed, but one that is cut off can.
func (w *Writer) OnEvent(ctx context.Context, e retry.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	line, err := recordOf(ctx, e).MarshalJSON() // json.Marshal would read these bytes again
	if err == nil {
		_, err = w.w.Write(append(line, '\n'))
	}
	if err != nil {
		w.err = fmt.Errorf("retrylog: %w", err)
	}
}

// Err returns the error that ended the log, nil if none did.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
