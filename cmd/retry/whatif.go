package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/logfile"
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
be of one target: choose its calls with -key. It may have calls in at most a
million seconds. The estimate does not know that more retries can keep a target
down.
`,
}

const (
	mostExtrapolated = 0.3
	mostSeconds      = 1_000_000              // with calls, about which something is kept
	bucket           = 100 * time.Millisecond // of samples
	reach            = time.Second            // how far a sample may be away
	slack            = 10 * time.Millisecond  // between two times of the same attempt
	enough           = 3                      // samples
	mostPlayed       = 1000                   // retries of a call; the next is extrapolated
	mostRounds       = 20                     // that it takes to find out what a budget allows
)

func whatif(s *streams, c *command, args []string) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	w := &whatifs{streams: s, seconds: map[int64]*second{}, most: mostSeconds}
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
	if w.budget.Size != 0 || w.budget.Ratio != 0 {
		err = retry.Policy{MaxAttempts: 1, Budget: &w.budget}.Validate()
	}
	switch {
	case err != nil:
		return c.misused(s, err)
	case *file == "":
		return c.misused(s, "there is no policy: write -policy and the file that has it")
	case len(names) == 0 || !regular(names):
		return c.misused(s, "a log is read more than once: write the name of a file")
	}
	p, status := c.readPolicy(s, *file, from)
	if status != ok {
		return status
	}
	w.policy = p.Policy
	err = w.run(names)
	if err == nil && *asJSON {
		err = json.NewEncoder(s.out).Encode(w.estimate)
	} else if err == nil {
		_, err = io.WriteString(s.out, w.text())
	}
	if err != nil {
		return c.failed(s, err)
	}
	return ok
}

// A second is what happens in one. The numbers of retries are expectations, as all those of
// whatifs: after an attempt that fails with probability 0.25 there is a quarter of a retry.
type second struct {
	tallies                                      [time.Second / bucket]tally
	attempts                                     float64 // in tallies
	retries, sampled, wanted, succeeded, allowed float64 // allowed: share, by the budget
}

// A tally counts the attempts of the log that started within a bucket. One that failed for
// good did not fail because of its target.
type tally struct{ all, failed int32 }

func (w *whatifs) second(at time.Time) *second {
	s := w.seconds[at.Unix()]
	if s == nil {
		s = &second{allowed: 1}
		w.seconds[at.Unix()] = s
	}
	return s
}

func (s *second) tally(at time.Time) *tally { return &s.tallies[time.Duration(at.Nanosecond())/bucket] }

// near returns how often an attempt of a call at this time fails, from the nearest samples.
// Those of the call itself are not among them: with its failures the calls that failed
// would fail again too often.
func (w *whatifs) near(c *flowlog.Call, at time.Time) (failed float64, known bool) {
	var sum tally
	for away := time.Duration(0); away <= reach && sum.all < enough; away += bucket {
		for _, t := range []time.Time{at.Add(-away), at.Add(away)}[:min(2, away/bucket+1)] {
			if s := w.seconds[t.Unix()]; s != nil {
				sum = tally{sum.all + s.tally(t).all, sum.failed + s.tally(t).failed}
			}
			for i, a := range sampled(c) {
				if a.Started.Truncate(bucket).Equal(t.Truncate(bucket)) {
					sum.count(w.outcome(c, i), -1)
				}
			}
		}
	}
	return float64(sum.failed) / float64(max(1, sum.all)), sum.all > 0
}

func (t *tally) count(o outcome, n int32) {
	t.all += n
	if !o.final {
		t.failed += n * int32(o.failed)
	}
}

// An outcome is how an attempt ended. A final failure is not retried.
type outcome struct {
	failed float64 // 0 or 1
	final  bool
	took   time.Duration
}

// outcome returns how an attempt of a call ended, under the policy's timeout.
func (w *whatifs) outcome(c *flowlog.Call, i int) outcome {
	a, limit := &c.Attempts[i], w.policy.AttemptTimeout
	if limit > 0 && a.Took > limit {
		return outcome{failed: 1, took: limit}
	}
	if a.Err == nil {
		return outcome{took: a.Took}
	}
	stopped := c.Reason == retry.ReasonPermanent || c.Reason == retry.ReasonRejected || c.Reason == retry.ReasonRetryAfter ||
		c.Reason == retry.ReasonNonRetryable && c.Max != 1 // 1: the old policy allowed no retry
	return outcome{1, stopped && i == len(c.Attempts)-1, a.Took}
}

type whatifs struct {
	selection
	streams *streams
	policy  retry.Policy
	budget  retry.Budget
	seconds map[int64]*second
	most    int       // seconds
	last    time.Time // when the last sample started
	estimate
}

// An estimate is made anew in each round. The errors are standard errors.
type estimate struct {
	Calls        int     `json:"calls"`
	Saved        float64 `json:"saved"`
	Lost         float64 `json:"lost"`
	Extrapolated float64 `json:"extrapolated"` // share of the retries
	SavedError   float64 `json:"saved_error"`
	LostError    float64 `json:"lost_error"`
	Retries      float64 `json:"retries"`
	Peak         float64 `json:"peak_retries_per_second"`
	LeftOut      int     `json:"left_out"` // calls
	Denied       float64 `json:"denied_by_budget"`
	Lowest       float64 `json:"lowest_budget"`

	wait   time.Duration
	unseen float64 // retries that are extrapolated
}

func (w *whatifs) run(names []string) error {
	if err := w.each(names, w.sample); err != nil {
		return err
	}
	fault := func(text string) error { return &policyfile.Fault{File: title(names[0]), Line: 1, Text: text} }
	if w.last.IsZero() {
		return fault("there is no whole call with its attempts, which slog has at level Debug")
	}
	for range mostRounds {
		w.estimate = estimate{}
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
	w.Extrapolated = w.unseen / max(w.Retries, 1e-9)
	var sampled, shared float64 // retries that share samples differ more
	for _, s := range w.seconds {
		sampled += s.sampled
		shared += s.sampled * s.sampled / max(1, s.attempts)
	}
	factor := 1 + shared/max(1, sampled)
	w.SavedError, w.LostError = math.Sqrt(w.SavedError*factor), math.Sqrt(w.LostError*factor)
	if w.Extrapolated > mostExtrapolated {
		return fault(fmt.Sprintf("there is no estimate: %.0f%% of the retries are extrapolated, and at most 30%% may be", math.Ceil(100*w.Extrapolated)))
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
	w.LeftOut = 0
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
		has := func(r logfile.Record) bool { return r.Event.Kind == retry.AttemptStarted }
		unfinished := func(a retrylog.Attempt) bool { return !a.Finished }
		if cut != "" || call.Task != "" || call.Resets > 0 || !slices.ContainsFunc(c.Records, has) ||
			call.Attempts[0].Number != 1 || slices.ContainsFunc(call.Attempts, unfinished) {
			w.LeftOut++
			continue
		}
		if use(&call, c.Last()); len(w.seconds) > w.most {
			return fmt.Errorf("there are calls in more than %d seconds: choose fewer with -since or -key", w.most)
		}
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
		s := w.second(a.Started)
		s.attempts++
		s.tally(a.Started).count(w.outcome(c, i), 1)
		if a.Started.After(w.last) {
			w.last = a.Started
		}
	}
}

// play makes the retries of a call as the policy decides.
func (w *whatifs) play(c *flowlog.Call, last *retry.Event) {
	w.Calls++
	succeeds := min(1, w.follow(c, last))
	variance := succeeds * (1 - succeeds)
	if c.Reason == retry.ReasonSuccess {
		w.Lost, w.LostError = w.Lost+1-succeeds, w.LostError+variance
	} else {
		w.Saved, w.SavedError = w.Saved+succeeds, w.SavedError+variance
	}
}

// follow returns the probability that a call succeeds.
func (w *whatifs) follow(c *flowlog.Call, last *retry.Event) (succeeded float64) {
	own, next := c.Attempts[0], 1 // own: the attempt in the log; next: the one after it
	begun, at := own.Started, own.Started
	seed := cmp.Or(own.Seed, retry.SeedOf(c.Key+begun.String()))
	stopped := c.Reason == retry.ReasonCanceled || c.Reason == retry.ReasonDeadline || c.Reason == retry.ReasonWait
	o, goes := w.outcome(c, 0), 1.0 // goes: the probability of this attempt
	for number, made := 1, 0; ; number, made = number+1, made+1 {
		end := at.Add(o.took)
		w.second(end).succeeded += goes * (1 - o.failed)
		succeeded += goes * (1 - o.failed)
		if goes *= o.failed; goes < 1e-9 || o.final {
			return succeeded
		}
		if own.RetryAfter > 0 {
			own.Err = retry.After(own.RetryAfter, own.Err)
		}
		a := retry.Attempt{Number: number, Err: own.Err, Took: o.took, Elapsed: end.Sub(begun), Seed: seed}
		d := w.policy.Next(a)
		if d.Reset { // with a seed of its own
			number, begun, seed = 1, end, retry.SeedOf(strconv.FormatUint(seed, 10))
			a.Seed = seed
			d = w.policy.Next(a)
		}
		at = end.Add(d.Delay)
		if !d.Retry() || stopped && at.After(last.Time) {
			return succeeded
		}
		s := w.second(end)
		s.wanted += goes
		goes *= s.allowed
		w.wait += time.Duration(goes * float64(d.Delay))
		w.Retries += goes
		s = w.second(at)
		s.retries += goes
		w.Peak = max(w.Peak, s.retries)
		same := func(a retrylog.Attempt) bool { return a.Started.Sub(at).Abs() < slack }
		if i := slices.IndexFunc(c.Attempts[next:], same); i >= 0 {
			own, at, o = c.Attempts[next+i], c.Attempts[next+i].Started, w.outcome(c, next+i)
			next += i + 1
			continue
		}
		own.RetryAfter, own.Err = 0, nil
		near, known := w.near(c, at)
		if known {
			o.failed = near
			s.sampled += goes
		}
		if !known || own.Class != "" {
			w.unseen += goes
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
	w.Lowest, w.Denied = size, 0
	for _, at := range slices.Sorted(maps.Keys(w.seconds)) {
		s := w.seconds[at]
		before := s.allowed
		level += w.budget.Ratio * s.succeeded
		s.allowed = min(1, level/max(s.wanted, 1e-9))
		w.Denied += s.wanted * (1 - s.allowed)
		level = min(size, level-s.wanted*s.allowed)
		w.Lowest = min(w.Lowest, level)
		change = max(change, math.Abs(s.allowed-before))
	}
	return change
}

func (w *whatifs) text() string {
	number := func(f float64) string { return preview.Thousands(int64(math.Round(f))) }
	share := fmt.Sprintf("%.0f%% extrapolated", math.Ceil(100*w.Extrapolated))
	text := fmt.Sprintf("%s: %s of %s retries are more than 1s from every attempt in the log.\n\n", share, number(w.unseen), number(w.Retries)) +
		fmt.Sprintf("%s: %s saved, %s lost; %s\n", counted(w.Calls, "call"), number(w.Saved), number(w.Lost), share) +
		fmt.Sprintf("%s retries, at most %s in a second; a call waits %s on average\n", number(w.Retries), number(w.Peak), preview.Brief(w.wait/time.Duration(w.Calls)))
	if w.budget.Size > 0 {
		text += fmt.Sprintf("the budget of %d falls to %s and denies %s retries\n", w.budget.Size, number(w.Lowest), number(w.Denied))
	}
	if w.LeftOut > 0 {
		text += fmt.Sprintf("left out: %s that the log does not have whole, or of a pipeline\n", counted(w.LeftOut, "call"))
	}
	return text
}
