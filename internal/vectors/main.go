// Command vectors prints testdata/vectors.json. This file contains the decisions of the library
// for 200 policies. Every platform must make the same decisions, to the nanosecond.
//
//	go run ./internal/vectors > testdata/vectors.json
//
// It is a program and not a test, so it can check a platform without the modules that tests
// need: GOAMD64=v3 go run ./internal/vectors | cmp testdata/vectors.json
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/goretry/retry"
)

const policies = 200

func main() {
	w := bufio.NewWriter(os.Stdout)
	if err := write(w); err != nil {
		log.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		log.Fatal(err)
	}
}

// A vector contains a decision and the input of the decision. Times are in nanoseconds.
type vector struct {
	Policy     retry.Policy  `json:"policy"`
	Attempt    int           `json:"attempt"`
	Key        string        `json:"key,omitzero"` // "" or a job's key, from which Seed is made
	Seed       string        `json:"seed"`         // as text, since JSON readers may round numbers
	Elapsed    time.Duration `json:"elapsed,omitzero"`
	RetryAfter time.Duration `json:"retry_after,omitzero"`
	Class      *class        `json:"class,omitzero"`

	Reason retry.Reason  `json:"reason"`
	Delay  time.Duration `json:"delay"`
	Lo     time.Duration `json:"lo"`
	Hi     time.Duration `json:"hi"`
}

// A class describes a retry.Class. The Policy in the field Sets contains the settings of the class.
// Only the fields that a Class has too are used.
type class struct {
	Name    string       `json:"name,omitzero"`
	Earlier int          `json:"earlier,omitzero"` // how many earlier attempts failed with this class
	Sets    retry.Policy `json:"sets"`
}

// The function `write` writes the vectors as a JSON list, with one vector on each line.
func write(w io.Writer) error {
	g := generator{rand.New(rand.NewPCG(2026, 11))}
	separator := "["
	seen := make(map[string]bool)
	for len(seen) < policies {
		p := g.policy()
		if seen[p.String()] {
			continue
		}
		seen[p.String()] = true
		for range 1 + g.IntN(2) {
			line, err := json.Marshal(g.vector(p))
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%s\n%s", separator, line); err != nil {
				return err
			}
			separator = ","
		}
	}
	_, err := fmt.Fprintln(w, "\n]")
	return err
}

// A generator makes policies and attempts of every kind. It makes the same policies and attempts on
// every platform. It never multiplies two floats, because some processors round a product
// differently if it is added to another float.
type generator struct{ *rand.Rand }

func (g generator) vector(p retry.Policy) vector {
	v := vector{
		Policy: p, Attempt: 1 + g.IntN(12),
		Elapsed: g.sometimes(3), RetryAfter: g.sometimes(4),
	}
	if g.oneIn(8) {
		v.Attempt = 1 + g.IntN(1_000_000) // usually far above every limit
	}
	if g.oneIn(10) {
		v.RetryAfter = time.Duration(1 + g.IntN(20_000_000)) // some are below the least wait of 10ms
	}
	seed := max(1, g.Uint64())
	if g.oneIn(8) {
		v.Key = []string{"", "job-1", "réservé/"}[g.IntN(3)] + strconv.Itoa(g.IntN(100))
		seed = retry.SeedOf(v.Key)
	}
	v.Seed = strconv.FormatUint(seed, 10)
	a := retry.Attempt{Number: v.Attempt, Seed: seed, Elapsed: v.Elapsed, Err: errors.New("busy")}
	if v.RetryAfter > 0 {
		a.Err = retry.After(v.RetryAfter, a.Err)
	}
	if v.Class = g.class(v.Attempt); v.Class != nil {
		c, sets := v.Class, v.Class.Sets
		a.Classes = map[string]int{c.Name: c.Earlier}
		p.Classify = func(error) *retry.Class {
			return &retry.Class{
				Name: c.Name, MaxAttempts: sets.MaxAttempts, NonRetryable: sets.NonRetryable,
				Backoff: sets.Backoff, MaxDelay: sets.MaxDelay, Jitter: sets.Jitter,
			}
		}
	}
	d := p.Next(a)
	v.Reason, v.Delay, v.Lo, v.Hi = d.Reason, d.Delay, d.Lo, d.Hi
	return v
}

// class returns the class of a failure. Two of three failures have no class.
func (g generator) class(attempt int) *class {
	if !g.oneIn(3) {
		return nil
	}
	c := &class{Sets: retry.Policy{NonRetryable: g.oneIn(10), MaxDelay: g.sometimes(3)}}
	if g.oneIn(2) {
		c.Name, c.Earlier = "busy", g.IntN(min(attempt, 6))
	}
	if g.oneIn(2) {
		c.Sets.MaxAttempts = 1 + g.IntN(8)
	}
	if g.oneIn(2) {
		c.Sets.Backoff = g.backoff()
	}
	if g.oneIn(2) {
		c.Sets.Jitter = g.jitter()
	}
	return c
}

// policy returns a valid policy.
func (g generator) policy() retry.Policy {
	for {
		p := retry.Policy{
			Backoff: g.backoff(), Jitter: g.jitter(),
			NonRetryable: g.oneIn(40), RetryAfter: g.mode(),
		}
		switch g.IntN(4) {
		case 0:
			p.MaxAttempts = 1 + g.IntN(20)
		case 1:
			p.MaxRetries = 1 + g.IntN(20)
		case 2:
			p.MaxAttempts = retry.Unlimited
		}
		if g.oneIn(8) {
			p.AttemptCap = 1 + g.IntN(10)
		}
		p.MaxElapsed, p.MaxDelay, p.MaxRetryAfter = g.sometimes(3), g.sometimes(2), g.sometimes(6)
		if p.Validate() == nil {
			return p
		}
	}
}

func (g generator) mode() retry.RetryAfterMode {
	switch g.IntN(8) {
	case 0:
		return retry.RetryAfterExact
	case 1:
		return retry.RetryAfterAtLeast
	default:
		return retry.RetryAfterSpread
	}
}

func (g generator) backoff() retry.Backoff {
	schedule := make(retry.Schedule, 1+g.IntN(4))
	for i := range schedule {
		schedule[i] = g.time()
	}
	base := g.time()
	return []retry.Backoff{
		retry.Fixed(base), retry.Linear(base), retry.Fibonacci(base), schedule, nil,
		retry.Exponential{Base: base},
		retry.Exponential{Base: base, Factor: 1 + g.Float64()},
		retry.Exponential{Base: base, Factor: float64(1 + g.IntN(9))},
	}[g.IntN(8)]
}

func (g generator) jitter() retry.Jitter {
	return []retry.Jitter{
		nil, retry.FullJitter, retry.EqualJitter,
		retry.Proportional(float64(g.IntN(11)) / 10), retry.Proportional(g.Float64()),
	}[g.IntN(5)]
}

// The method `time` returns a duration from 0 to 80 years. Most durations are short. Some are
// longer than 104 days, where a float64 cannot hold every nanosecond.
func (g generator) time() time.Duration {
	most := []time.Duration{1, time.Hour, 80 * 365 * 24 * time.Hour}[(1+g.IntN(5))/2]
	if g.oneIn(2) {
		return time.Duration(1+g.IntN(600)) * 100 * time.Millisecond
	}
	return time.Duration(g.Int64N(int64(most)))
}

// The method `sometimes` returns a duration in one of n calls. In the other calls it returns 0.
func (g generator) sometimes(n int) time.Duration {
	if g.oneIn(n) {
		return g.time()
	}
	return 0
}

func (g generator) oneIn(n int) bool { return g.IntN(n) == 0 }
