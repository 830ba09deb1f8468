package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/retryflow/flowlog"
	"github.com/goretry/retry/retrylog"
)

var whatifCommand = &command{
	name: "whatif", args: "-policy FILE [flags] LOG ...", run: whatif,
	summary: "estimate what a log would have been under another policy",
	doc: `
Whatif estimates what the calls of a log would have done under the policy in a
file: how many more would have succeeded (saved) or failed (lost), how long they
would have waited, and how many retries a second there would have been.

    retry whatif -policy new.yaml retries.log
    retry whatif -policy new.yaml -budget 100 -ratio 0.1 retries.log

Each attempt in the log shows whether its target failed then. First attempts
stay as they were. A retry at another time fails as often as the attempts
nearest to it, at most 1s away. If there are none, it is extrapolated. If more
than 30% of the retries are, there is no estimate.

The log needs its attempts, which retrylog.Slog logs at level Debug, and should
be of one target: choose its calls with -key. The estimate does not know that
more retries can keep a target down. If the retries in the log failed more often
than other attempts at that time, it says so.
`,
}

const (
	mostExtrapolated = 0.3
	bucket           = 100 * time.Millisecond // of samples
	reach            = time.Second            // how far a sample may be away
	slack            = 10 * time.Millisecond  // between two times of the same attempt
	enough           = 3                      // samples
	mostPlayed       = 1000                   // retries of a call; the next is extrapolated
	mostRounds       = 20                     // that it takes to find out what a budget allows
)

func whatif(s *streams, c *command, args []string) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	w := &whatifs{streams: s}
	var from source
	from.define(flags)
	w.define(flags)
	file := flags.String("policy", "", "the `file` with the policy, YAML or JSON")
	asJSON := flags.Bool("json", false, "print JSON, for programs")
	flags.IntVar(&w.budget.Size, "budget", 0, "share a budget of `N` retries among all calls; 0: none")
	flags.Float64Var(&w.budget.Ratio, "ratio", 0, "the `share` of a retry that a success puts back into it")
	names, status, done := c.parse(s, flags, args)
	if done {
		return status
	}
	var err error
	switch {
	case *file == "":
		err = errors.New("there is no policy: write -policy and the file that has it")
	case w.budget.Size != 0 || w.budget.Ratio != 0:
		err = retry.Policy{MaxAttempts: 1, Budget: &w.budget}.Validate()
	}
	if err == nil && (len(names) == 0 || !regular(names)) {
		err = errors.New("a log is read more than once: write the name of a file")
	}
	if err != nil {
		return c.misused(s, err)
	}
	p, status := c.readPolicy(s, *file, from)
	if status != ok {
		return status
	}
	w.policy = p.Policy
	if err := w.run(names); err != nil {
		return c.failed(s, err)
	}
	text := w.text()
	if *asJSON {
		data, _ := json.Marshal(w.numbers())
		text = string(data) + "\n"
	}
	if _, err := io.WriteString(s.out, text); err != nil {
		return c.failed(s, err)
	}
	return ok
}

// A second is what happens in one. The numbers of retries are expectations, as all those of
// whatifs: after an attempt that fails with probability 0.25 there is a quarter of a retry.
type second struct {
	tallies                                              [time.Second / bucket]tally
	attempts                                             float64 // in tallies
	logged, retries, sampled, wanted, succeeded, allowed float64 // allowed: share, by the budget
}

// A tally counts the attempts of the log that started within a bucket.
type tally struct{ all, failed, final uint32 }

func (w *whatifs) second(at time.Time) *second {
	s := w.seconds[at.Unix()]
	if s == nil {
		s = &second{allowed: 1}
		w.seconds[at.Unix()] = s
	}
	return s
}

// near returns the outcome of an attempt of a call at this time, from the nearest samples.
// Those of the call itself are not among them: with its failures the calls that failed
// would fail again too often.
func (w *whatifs) near(c *flowlog.Call, at time.Time) (o outcome, known bool) {
	var sum tally
	for away := time.Duration(0); away <= reach && sum.all < enough; away += bucket {
		for _, t := range []time.Time{at.Add(-away), at.Add(away)}[:min(2, away/bucket+1)] {
			if s := w.seconds[t.Unix()]; s != nil {
				n := s.tallies[time.Duration(t.Nanosecond())/bucket]
				sum = tally{sum.all + n.all, sum.failed + n.failed, sum.final + n.final}
			}
			for i, a := range sampled(c) {
				if a.Started.Truncate(bucket).Equal(t.Truncate(bucket)) {
					o, _ := w.outcome(c, i)
					sum = tally{sum.all - 1, sum.failed - uint32(o.failed), sum.final - uint32(o.final)}
				}
			}
		}
	}
	all := float64(max(1, sum.all))
	return outcome{float64(sum.failed) / all, float64(sum.final) / all}, sum.all > 0
}

// An outcome is the probability that an attempt failed, and that it failed so that it is
// not retried.
type outcome struct{ failed, final float64 }

// outcome returns how an attempt of a call ended, under the policy's timeout.
func (w *whatifs) outcome(c *flowlog.Call, i int) (outcome, time.Duration) {
	a, limit := &c.Attempts[i], w.policy.AttemptTimeout
	switch {
	case limit > 0 && a.Took > limit:
		return outcome{failed: 1}, limit
	case a.Err == nil:
		return outcome{}, a.Took
	case i < len(c.Attempts)-1:
	case c.Reason == retry.ReasonPermanent, c.Reason == retry.ReasonRejected, c.Reason == retry.ReasonRetryAfter,
		c.Reason == retry.ReasonNonRetryable && c.Max != 1: // 1: the old policy allowed no retry
		return outcome{final: 1}, a.Took
	}
	return outcome{failed: 1}, a.Took
}

type whatifs struct {
	selection
	streams *streams
	policy  retry.Policy
	budget  retry.Budget
	lowest  float64 // level of the budget
	seconds map[int64]*second
	last    time.Time // when the last sample started
	left    int       // calls that are left out
	totals
}

// totals are what is counted anew in each round.
type totals struct {
	calls, logged, saved, lost                      float64 // logged: that succeeded in the log
	savedVariance, lostVariance                     float64
	retries, extrapolated, denied, peak, loggedPeak float64
	loggedRetries, loggedFailed, sampledFailed      float64
	wait, loggedWait                                time.Duration
}

func (w *whatifs) run(names []string) error {
	w.seconds = map[int64]*second{}
	if err := w.each(names, w.sample); err != nil {
		return err
	}
	if w.last.IsZero() {
		return &policyfile.Fault{File: title(names[0]), Line: 1, Text: "there is no whole call with its attempts, which slog has at level Debug"}
	}
	for range mostRounds {
		w.totals = totals{}
		for _, s := range w.seconds {
			*s = second{tallies: s.tallies, attempts: s.attempts, allowed: s.allowed}
		}
		if err := w.each(names, w.play); err != nil {
			return err
		}
		if w.budget.Size == 0 || w.spend() < 0.001 {
			break
		}
	}
	if share := w.share(); share > mostExtrapolated {
		return &policyfile.Fault{File: title(names[0]), Line: 1, Text: fmt.Sprintf("there is no estimate: %.0f%% of the retries are extrapolated, and at most 30%% may be", math.Ceil(100*share))}
	}
	return nil
}

// each calls use for each selected call that is whole and began with its first attempt.
func (w *whatifs) each(names []string, use func(*flowlog.Call, *retry.Event)) error {
	log, closeAll, err := open(w.streams, names, nil)
	if err != nil {
		return err
	}
	defer closeAll()
	w.left = 0
	for c, err := range log.Calls() {
		if err != nil {
			return err
		}
		if !w.has(c.Key, c.Last().Time) {
			continue
		}
		call, cut, err := c.Replay()
		if err != nil {
			return lineFault(c, err)
		}
		has := func(r flowlog.Record) bool { return r.Event.Kind == retry.AttemptStarted }
		unfinished := func(a retrylog.Attempt) bool { return !a.Finished }
		if cut != "" || call.Task != "" || call.Resets > 0 || !slices.ContainsFunc(c.Records, has) ||
			call.Attempts[0].Number != 1 || slices.ContainsFunc(call.Attempts, unfinished) {
			w.left++
			continue
		}
		use(&call, c.Last())
	}
	return nil
}

// sampled returns the attempts that are samples. The last one of a canceled call failed
// perhaps because of that.
func sampled(c *flowlog.Call) []retrylog.Attempt {
	if c.Reason == retry.ReasonCanceled {
		return c.Attempts[:len(c.Attempts)-1]
	}
	return c.Attempts
}

// sample takes the attempts of a call as samples.
func (w *whatifs) sample(c *flowlog.Call, _ *retry.Event) {
	for i, a := range sampled(c) {
		o, _ := w.outcome(c, i)
		s := w.second(a.Started)
		s.attempts++
		t := &s.tallies[time.Duration(a.Started.Nanosecond())/bucket]
		*t = tally{t.all + 1, t.failed + uint32(o.failed), t.final + uint32(o.final)}
		if a.Started.After(w.last) {
			w.last = a.Started
		}
	}
}

// play makes the retries of a call as the policy decides.
func (w *whatifs) play(c *flowlog.Call, last *retry.Event) {
	w.calls++
	for i := range c.Attempts[1:] {
		w.loggedRetries++
		w.loggedWait += c.Attempts[i].Delay
		s := w.second(c.Attempts[i+1].Started)
		s.logged++
		w.loggedPeak = max(w.loggedPeak, s.logged)
		o, _ := w.outcome(c, i+1)
		w.loggedFailed += o.failed + o.final
		o, _ = w.near(c, c.Attempts[i+1].Started)
		w.sampledFailed += o.failed + o.final
	}
	succeeds := w.follow(c, last)
	if c.Reason == retry.ReasonSuccess {
		w.logged++
		w.lost, w.lostVariance = w.lost+1-succeeds, w.lostVariance+succeeds*(1-succeeds)
	} else {
		w.saved, w.savedVariance = w.saved+succeeds, w.savedVariance+succeeds*(1-succeeds)
	}
}

// follow returns the probability that a call succeeds.
func (w *whatifs) follow(c *flowlog.Call, last *retry.Event) (succeeded float64) {
	begun, at, goes := c.Attempts[0].Started, c.Attempts[0].Started, 1.0 // goes: the probability of this attempt
	own, next := c.Attempts[0], 1                                        // own: the attempt in the log; next: the one after it
	seed := cmp.Or(own.Seed, retry.SeedOf(c.Key+begun.String()))
	o, took := w.outcome(c, 0)
	for number, made := 1, 0; ; number, made = number+1, made+1 {
		end, works := at.Add(took), goes*(1-o.failed-o.final)
		w.second(end).succeeded += works
		succeeded += works
		if goes *= o.failed; goes < 1e-9 {
			return succeeded
		}
		if own.RetryAfter > 0 {
			own.Err = retry.After(own.RetryAfter, own.Err)
		}
		d := w.policy.Next(retry.Attempt{Number: number, Err: own.Err, Took: took, Elapsed: end.Sub(begun), Seed: seed})
		if d.Reset {
			number, begun = 1, end
		}
		at = end.Add(d.Delay)
		stopped := c.Reason == retry.ReasonCanceled || c.Reason == retry.ReasonDeadline || c.Reason == retry.ReasonWait
		if !d.Retry() || stopped && at.After(last.Time) {
			return succeeded
		}
		s := w.second(end)
		s.wanted += goes
		if goes *= s.allowed; goes < 1e-9 {
			return succeeded
		}
		w.wait += time.Duration(goes * float64(d.Delay))
		w.retries += goes
		s = w.second(at)
		s.retries += goes
		w.peak = max(w.peak, s.retries)
		same := func(a retrylog.Attempt) bool { return a.Started.Sub(at).Abs() < slack }
		if i := slices.IndexFunc(c.Attempts[next:], same); i >= 0 {
			own, at = c.Attempts[next+i], c.Attempts[next+i].Started
			o, took = w.outcome(c, next+i)
			next += i + 1
			continue
		}
		own.RetryAfter, own.Err = 0, nil
		near, known := w.near(c, at)
		if known {
			o = near
			s.sampled += goes
		}
		if !known || own.Class != "" {
			w.extrapolated += goes
		}
		if made == mostPlayed || at.After(w.last.Add(reach)) {
			return succeeded
		}
	}
}

// spend computes the level of the budget in each second, and so the share of the retries
// that it allows. It returns by how much the shares differ from those before.
func (w *whatifs) spend() (change float64) {
	size := float64(w.budget.Size)
	level := size
	w.lowest, w.denied = size, 0
	for _, at := range slices.Sorted(maps.Keys(w.seconds)) {
		s := w.seconds[at]
		before := s.allowed
		level += w.budget.Ratio * s.succeeded
		if s.allowed = 1; s.wanted > level {
			s.allowed = level / s.wanted
		}
		w.denied += s.wanted * (1 - s.allowed)
		level = min(size, level-s.wanted*s.allowed)
		w.lowest = min(w.lowest, level)
		change = max(change, math.Abs(s.allowed-before))
	}
	return change
}

func (w *whatifs) share() float64 { return w.extrapolated / max(w.retries, 1e-9) }

// deviation returns a standard error. The variance is that of the calls alone. Samples
// that many retries share add to it.
func (w *whatifs) deviation(variance float64) float64 {
	var sampled, shared float64
	for _, s := range w.seconds {
		sampled += s.sampled
		shared += s.sampled * s.sampled / max(1, s.attempts)
	}
	return math.Sqrt(variance * (1 + shared/max(1, sampled)))
}

// numbers returns what -json prints. The errors are standard errors.
func (w *whatifs) numbers() map[string]float64 {
	return map[string]float64{
		"calls": w.calls, "saved": math.Round(w.saved), "lost": math.Round(w.lost), "extrapolated": w.share(),
		"saved_error": w.deviation(w.savedVariance), "lost_error": w.deviation(w.lostVariance),
		"retries": math.Round(w.retries), "peak_retries_per_second": math.Round(w.peak), "left_out": float64(w.left),
		"denied_by_budget": math.Round(w.denied), "lowest_budget": math.Round(w.lowest),
	}
}

func (w *whatifs) text() string {
	number := func(f float64) string { return preview.Thousands(int64(math.Round(f))) }
	var b strings.Builder
	share := fmt.Sprintf("%.0f%% extrapolated", math.Ceil(100*w.share()))
	fmt.Fprintf(&b, "%s: %s of %s retries are more than 1s from every attempt in the log.\n\n", share, number(w.extrapolated), number(w.retries))
	fmt.Fprintf(&b, "%s: %s saved, %s lost; %s\n\n", counted(int(w.calls), "call"), number(w.saved), number(w.lost), share)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, log, policy string) { fmt.Fprintf(t, "%s\t%s\t%s\n", name, log, policy) }
	mean := func(d time.Duration) string { return preview.Brief(d / time.Duration(w.calls)) }
	row("", "LOG", "POLICY")
	row("succeeded", number(w.logged), number(w.logged+w.saved-w.lost))
	row("retries", number(w.loggedRetries), number(w.retries))
	row("most retries in a second", number(w.loggedPeak), number(w.peak))
	row("mean wait of a call", mean(w.loggedWait), mean(w.wait))
	_ = t.Flush()
	if w.budget.Size > 0 {
		fmt.Fprintf(&b, "\nThe budget of %d falls to %s and denies %s retries.\n", w.budget.Size, number(w.lowest), number(w.denied))
	}
	if w.left > 0 {
		fmt.Fprintf(&b, "\nLeft out: %s that the log does not have whole, or of a pipeline.\n", counted(w.left, "call"))
	}
	if n := w.loggedFailed - w.sampledFailed; n > 0.1*w.loggedRetries && n > 3*math.Sqrt(w.loggedRetries) {
		fmt.Fprintf(&b, "\nToo good: %s of the retries in the log failed, and near them %s would have.\nSome errors belong to their calls, not to the target.\n", number(w.loggedFailed), number(w.sampledFailed))
	}
	return b.String()
}
