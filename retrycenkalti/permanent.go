package retrycenkalti

import (
	"errors"

	"github.com/cenkalti/backoff/v4"

	"github.com/goretry/retry"
)

// Retryable returns false if err contains a *backoff.PermanentError, which backoff.Permanent
// returns. It is the RetryIf of the policies that [Policy] returns, so operations may still use
// backoff.Permanent. An error of backoff.Permanent then stops the call with ReasonRejected. If
// you set another RetryIf, call Retryable inside it. An error that went through [Translate]
// stops a call with ReasonPermanent, and needs no RetryIf.
func Retryable(err error) bool { return permanent(err) == nil }

// Translate returns an error that is permanent in both libraries if err is permanent in one of
// them. An error is permanent if its tree contains a result of backoff.Permanent or
// retry.Permanent. The [*retry.Error] of a nested call that ended with ReasonInvalid is permanent
// too. Translate returns any other error unchanged.
//
//	retry.Do(ctx, p, func(ctx context.Context) error {
//		return retrycenkalti.Translate(old(ctx))
//	})
//	backoff.Retry(func() error { return retrycenkalti.Translate(new(ctx)) }, b)
//
// After backoff.Permanent has stopped a call, the result of [retry.Unwrap] still contains the
// *backoff.PermanentError. Compare it with errors.Is and not with ==.
//
// Translate returns nil for a PermanentError whose Err is nil, because v4 counts it as a success.
// For a nil *PermanentError, Translate panics, as retry.Do and backoff.Retry do.
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

// permanent returns the first *backoff.PermanentError in the tree of err, or nil.
func permanent(err error) *backoff.PermanentError {
	var p *backoff.PermanentError
	errors.As(err, &p)
	return p
}
