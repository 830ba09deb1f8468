package retrylog

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventlog"
	"github.com/goretry/retry/internal/logkey"
)

// WithKey returns a context whose calls have key in a log. Calls that run at the
// same time need different keys, and a call within another one needs a key of its
// own, because otherwise it gets the key of the outer call.
func WithKey(ctx context.Context, key string) context.Context { return logkey.With(ctx, key) }

// Key returns the key of ctx, "" if it has none.
func Key(ctx context.Context) string { return logkey.Of(ctx) }

// A Record is an event and the Key of its call, with the Line of the log it was read from. It
// is written as JSON with the key as the first field, and its String is its line in [Explain].
type Record = eventlog.Record

// HedgeKey is for clients that send a second request while the first one is in flight. If the
// context of an attempt's events has, under HedgeKey{}, a value with a method
// Hedged(context.Context) bool that returns true, the record of the AttemptFinished is Hedged. A
// retryhttp.Hedge below a retryhttp.Transport does this.
type HedgeKey = logkey.Hedge

func recordOf(ctx context.Context, e retry.Event) Record {
	return Record{Key: Key(ctx), Event: e, Hedged: e.Kind == retry.AttemptFinished && logkey.Hedged(ctx)}
}

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
	line, err := json.Marshal(recordOf(ctx, e))
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

// ErrCutOff means that a line of a log is incomplete, as after a crash.
var ErrCutOff = eventlog.ErrCutOff

// Read reads a log that a [Writer] wrote, or that a handler of [log/slog] wrote of [Slog], as JSON
// or text. Above level Debug a logger has no attempts, and [Replay] adds them. Read skips empty
// lines, and what the program logged for other purposes: a line is an event if it has a kind, an
// attempt and a max, and of a logger only if this version knows the kind. The event is where a
// Writer or a logger writes it: at the beginning of a line, or after the prefix of kubectl, docker
// compose, syslog, journald or CRI. Docker's JSON, and that of collectors of Kubernetes and of
// journald, is read for the line in it. An event in any other text is not read, because the text
// may be a stranger's. Something else may follow the event. Slog's logger must have no group,
// within which Read finds no event.
// Of a key that is there twice the last one is the event's.
//
// If a crash has cut off a line, so that it is incomplete or has zero bytes in it, Read returns
// all records that are whole, including those written after the cut, and an error that is
// [ErrCutOff] and names the first such line. So it does for a line of more than 4 MiB. An event
// that cannot be read ends the log with an error that names its line.
func Read(r io.Reader) ([]Record, error) { return eventlog.Read(r) }
