package retrycenkalti

import (
	"errors"

	"github.com/cenkalti/backoff/v4"

	"github.com/goretry/retry"
)

// Retryable reports whether err is free of the mark of backoff.Permanent. It is
// the RetryIf of the policies that [Policy] makes, for operations that still
// set that mark: they stop with ReasonRejected. A RetryIf in its place must
// call it. Errors that go through [Translate] stop with ReasonPermanent, and
// need no RetryIf.
func Retryable(err error) bool { return permanent(err) == nil }

// Translate returns err so that the loops of both libraries understand its
// marks: one that backoff.Permanent or retry.Permanent has marked, anywhere in
// its tree, is marked by both, and so is an inner call that ended with
// ReasonInvalid, which stops our loops too. Any other is returned as it is.
//
//	retry.Do(ctx, p, func(ctx context.Context) error { return retrycenkalti.Translate(old(ctx)) })
//	backoff.Retry(func() error { return retrycenkalti.Translate(new(ctx)) }, b)
//
// A PermanentError without an Err, which is a success to v4, becomes nil. A nil
// *PermanentError panics, as it does in both loops.
func Translate(err error) error {
	theirs, ours := permanent(err), stops(err)
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

// permanent returns what backoff.Permanent has put into err's tree, or nil.
func permanent(err error) *backoff.PermanentError {
	var p *backoff.PermanentError
	errors.As(err, &p)
	return p
}

// stops reports whether err stops every loop of ours. The marks are not to be
// seen from here; any policy's Next sees them, and asks for them first.
func stops(err error) bool {
	return retry.Policy{}.Next(retry.Attempt{Err: err}).Reason == retry.ReasonPermanent
}
