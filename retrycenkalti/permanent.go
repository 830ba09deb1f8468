package retrycenkalti

import (
	"errors"

	"github.com/cenkalti/backoff/v4"

	"github.com/goretry/retry"
)

// Retryable returns false if err has the mark of backoff.Permanent. It is the RetryIf of the
// policies that [Policy] returns, for operations that still use this mark. Their calls stop with
// ReasonRejected. If you set another RetryIf, call Retryable inside it. Errors that go through
// [Translate] stop with ReasonPermanent, and need no RetryIf.
func Retryable(err error) bool { return permanent(err) == nil }

// Translate returns an error that is permanent in both libraries if err is permanent in one of
// them. If backoff.Permanent or retry.Permanent has marked an error in the tree of err, the
// result has both marks. The error of an inner call that ended with ReasonInvalid gets both
// marks too, because it also stops the loops of package retry. Translate returns any other
// error unchanged.
//
//	retry.Do(ctx, p, func(ctx context.Context) error {
//		return retrycenkalti.Translate(old(ctx))
//	})
//	backoff.Retry(func() error { return retrycenkalti.Translate(new(ctx)) }, b)
//
// If the mark of v4 stopped a call, the error that [retry.Unwrap] returns still has this mark:
// compare with errors.Is.
//
// A PermanentError without an Err, which v4 counts as a success, becomes nil. A nil
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

// permanent returns the mark of backoff.Permanent in the tree of err, or nil.
func permanent(err error) *backoff.PermanentError {
	var p *backoff.PermanentError
	errors.As(err, &p)
	return p
}
