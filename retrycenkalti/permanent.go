package retrycenkalti

import (
	"errors"

	"github.com/cenkalti/backoff/v4"

	"github.com/goretry/retry"
)

// Retryable reports whether err was not marked by backoff.Permanent. It is the
// RetryIf of the policies that [Policy] returns, for operations that still use
// that mark: their calls stop with ReasonRejected. If you set another RetryIf,
// call Retryable inside it. Errors that go through [Translate] stop with
// ReasonPermanent, and need no RetryIf.
func Retryable(err error) bool { return permanent(err) == nil }

// Translate returns an error whose marks the loops of both libraries understand.
// If backoff.Permanent or retry.Permanent has marked err, anywhere in its tree,
// the result has both marks. An inner call that ended with ReasonInvalid gets
// both marks too, because it also stops the loops of package retry. Any other
// err is returned unchanged.
//
//	retry.Do(ctx, p, func(ctx context.Context) error { return retrycenkalti.Translate(old(ctx)) })
//	backoff.Retry(func() error { return retrycenkalti.Translate(new(ctx)) }, b)
//
// [retry.Unwrap] and [retry.Unwrap] of a call that it stopped still have the mark of
// v4: compare with errors.Is.
//
// A PermanentError without an Err, which v4 takes as success, becomes nil. A nil
// *PermanentError panics, as it does in both loops.
func Translate(err error) error {
	theirs, ours := permanent(err), retry.IsPermanent(err)
	switch {
	case theirs != nil && theirs.Err == nil:
		return nil
	case theirs != nil && !ours:
		return retry.Permanent(err)
	case ours && theirs == nil:
		return backoff.Permanent(err)
	default:
		return err
	}
}

// permanent returns the mark of backoff.Permanent in err's tree, or nil.
func permanent(err error) *backoff.PermanentError {
	var p *backoff.PermanentError
	errors.As(err, &p)
	return p
}
