package retry

import "context"

// WithBudget returns a context that contains b. Each retry of a call under this context takes a
// token from b too, whatever the policy of the call is. So b limits the retries of all layers
// of one request. For example, if three layers make four attempts each, the lowest layer is
// called 64 times. Under WithBudget(ctx, &retry.Budget{Size: 3}), it is called at most 4 times.
//
// A retry takes one token from each Budget of the context, starting with the innermost Budget,
// and then one token from the policy's Budget. If one of these Budgets is empty and not in its
// grace period, the other Budgets get their tokens back. Then the call stops with ReasonBudget,
// or with ReasonBorrowed if the empty Budget is Borrowed.
//
// Successes under the context put nothing back into b. Only [Do], [DoValue], [Once] and
// [LendBudget] use the Budgets of a context. [Policy.Next] and [Policy.Validate] get no context.
//
// WithBudget(ctx, &retry.Budget{}) allows no retry under ctx, with one exception: a retry after
// an attempt that ran past HealthyAfter takes nothing from any Budget. If b is nil, or if ctx
// already contains b, WithBudget returns ctx. If b is also the policy's Budget, a retry takes
// one token from b, not two.
//
// Other processes do not see the context. To share a Budget with other processes, use
// [LendBudget].
func WithBudget(ctx context.Context, b *Budget) context.Context {
	l := payersOf(ctx)
	if b == nil || l.has(b) {
		return ctx
	}
	return context.WithValue(ctx, payersKey{}, &payers{b, l})
}

type payersKey struct{}

// payers is a list of the Budgets of a context. The innermost Budget comes first, and no Budget
// is in the list twice. A nil *payers is an empty list.
type payers struct {
	budget *Budget
	outer  *payers
}

func payersOf(ctx context.Context) *payers {
	l, _ := ctx.Value(payersKey{}).(*payers)
	return l
}

// A receipt says which Budgets gave a token for a retry. It has one bit for each Budget. Bit 0 is
// for the policy's Budget, and bit 1 is for the innermost Budget of the context. All Budgets of the
// context from the 63rd on share bit 63. This bit cannot record that only some of these Budgets
// gave a token. So these Budgets do not use their Grace, because a Budget in its grace period
// allows a retry without giving a token.
type receipt uint64

const lastBit = 63

// The method `take` takes one token out of each Budget of l and then out of `own`, the policy's
// Budget. The parameter `number` says which retry of its call this is. If a Budget refuses the
// retry, the method gives all tokens back, and the result `empty` is this Budget. If no Budget
// refuses the retry, `empty` is nil.
func (l *payers) take(own *Budget, number int) (r receipt, empty *Budget) {
	place, graced := 0, number
	for at := l; at != nil; at = at.outer {
		if place++; place == lastBit {
			graced = graceRetry + 1
		}
		allowed, paid := at.budget.take(graced)
		if !allowed {
			l.giveBack(r, at)
			return 0, at.budget
		}
		if paid {
			r |= 1 << min(place, lastBit)
		}
	}
	if l.has(own) {
		return r, nil
	}
	allowed, paid := own.take(number)
	if !allowed {
		l.giveBack(r, nil)
		return 0, own
	}
	if paid {
		r |= 1
	}
	return r, nil
}

// The method `has` reports whether the list l contains b.
func (l *payers) has(b *Budget) bool {
	for ; l != nil; l = l.outer {
		if l.budget == b {
			return true
		}
	}
	return false
}

// giveBack gives a token back to each Budget of l whose bit is set in r. It stops before the list
// element `end`. If `end` is nil, giveBack goes through the whole list.
func (l *payers) giveBack(r receipt, end *payers) {
	place := 0
	for at := l; at != end; at = at.outer {
		if place++; r&(1<<min(place, lastBit)) != 0 {
			at.budget.Refund()
		}
	}
}

// The method `refund` gives back the tokens that r records. Each Budget of l whose bit is set in r
// gets one token. If bit 0 is set, `own`, the policy's Budget, gets one token too.
func (l *payers) refund(own *Budget, r receipt) {
	l.giveBack(r, nil)
	if r&1 != 0 {
		own.Refund()
	}
}

// The method `lend` takes the same number of retries out of each Budget of l, and returns this
// number. It takes at most `limit` retries, and leaves at least `reserve` retries in each Budget.
func (l *payers) lend(limit, reserve int64) int64 {
	if l == nil {
		return limit
	}
	l.budget.look()
	took := l.budget.takeUpTo(limit, reserve)
	lent := l.outer.lend(took, reserve)
	l.budget.putBack((took-lent)*token, l.budget.minSpent())
	return lent
}

// LendBudget lends retries to another process. It takes the same number of retries out of each
// Budget of ctx, but at most the number in the parameter `limit`. The result `lent` says how many
// retries it took out of each Budget. Send this number to the process: the process and all layers
// below it may make this many retries in all. When the process has answered, call giveBack with the
// number of retries that it did not use. Retries that are not given back count as spent.
//
// If keepOne is true, each Budget keeps one retry. Set keepOne if this layer may retry its own
// request. If the process never answers, the lent retries count as spent, but this layer can still
// use the retry that the Budget kept.
//
// A Budget lends no retries of its Grace. If ctx has no Budget, the result `lent` is [Unlimited],
// and giveBack does nothing. If a Budget is empty, or if the parameter `limit` is below 1, the
// result `lent` is 0. The policy's Budget lends nothing. giveBack is safe for concurrent use. It
// treats a negative number as 0. All calls of giveBack together give back at most as many retries
// as were lent.
//
// retryhttp.LendBudget calls LendBudget for HTTP requests, and retrygrpc.LendBudget calls it
// for gRPC calls.
func LendBudget(
	ctx context.Context, limit int, keepOne bool,
) (lent int, giveBack func(unspent int)) {
	l := payersOf(ctx)
	if l == nil {
		return Unlimited, func(int) {}
	}
	reserve := int64(0)
	if keepOne {
		reserve = 1
	}
	lent = int(l.lend(max(0, int64(limit)), reserve))
	out := &Budget{Size: lent} // the lent retries that giveBack may still return
	return lent, func(unspent int) {
		n := out.takeUpTo(int64(unspent), 0)
		for at := l; at != nil; at = at.outer {
			at.budget.putBack(n*token, at.budget.minSpent())
		}
	}
}
