package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"text/tabwriter"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/explore"
	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/cmd/retry/internal/printable"
)

var planCommand = &command{
	name: "plan", args: "[flags] FILE", run: plan,
	summary: "print the delays of a policy, and how long a call takes at most",
	doc: `
Plan prints what the policy in a file will do: each delay, after how many
attempts a call ends, and how long it takes in the worst case. The worst case
also depends on timeouts that the file sets outside of the policy, such as the
timeout of an Envoy route. Plan also prints a note about each setting that is
valid but probably unintended. The file is YAML or JSON.

    retry plan -at services.payments.retry config.yaml
    retry plan -seed order-42 policy.json
    retry plan -page policy.html policy.yaml
    kubectl get configmap retry -o 'jsonpath={.data.policy\.yaml}' | retry plan
`,
}

func plan(s *streams, c *command, args []string) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	var from source
	from.define(flags)
	retries := flags.Int("n", 10, "print at most `N` retries, or all retries if N is negative")
	seed := flags.String("seed", "",
		"also print the exact delays, jitter included, of the job with this `key`")
	asJSON := flags.Bool("json", false, "print JSON, for programs")
	page := flags.String("page", "",
		"write an HTML page with charts to this `file`")
	args, status, done := c.parse(s, flags, args)
	if done {
		return status
	}
	name, err := onlyFile(s, args)
	if err != nil {
		return c.misused(s, err)
	}
	p, status := c.readPolicy(s, name, from)
	if status != ok {
		return status
	}
	switch {
	case *page != "":
		return c.writePage(s, p, *page)
	case *asJSON:
		return printJSON(s, p, *retries, *seed)
	}

	at := ""
	if p.At != "" {
		at = ", " + p.At
	}
	fmt.Fprintf(s.out, "%s:%d%s (%s)\n\n%s\n",
		printable.Line(p.File), p.Line, printable.Line(at), p.dialect,
		preview.Text(p.Policy, *retries, p.Bounds))
	for _, fault := range p.Block.Lint(p.Policy) {
		fmt.Fprintln(s.out, "Note:", fault.Text)
	}
	for _, note := range p.Notes {
		fmt.Fprintln(s.out, "Note:", note)
	}
	if *seed != "" {
		fmt.Fprintf(s.out, "\nThe delays of %q, whose seed is %d:\n\n", *seed, retry.SeedOf(*seed))
		printDelays(s.out, delaysOf(p.Policy, *seed, *retries))
	}
	return ok
}

// writePage writes a page about p to a file.
func (c *command) writePage(s *streams, p policy, name string) int {
	html, err := explore.Page(explore.Policy{
		Policy:  p.Effective(p.Policy),
		Block:   p.Block,
		Dialect: p.dialect,
		Text:    p.text,
		Lints:   p.Block.Lint(p.Policy),
	})
	if err == nil {
		err = os.WriteFile(name, html, 0o644)
	}
	if err != nil {
		return c.failed(s, err)
	}
	return ok
}

// A delay is the wait after an attempt of a job. All attempts of this job fail immediately.
type delay struct {
	Attempt int          `json:"attempt"`
	Wait    jsonDuration `json:"wait"`
	Total   jsonDuration `json:"total"`           // the sum of all waits so far
	Reason  retry.Reason `json:"reason,omitzero"` // why the job ends here; "" if it goes on
}

// delaysOf returns the exact delays of the job with the key in the parameter `key`. The parameter
// `retries` is the largest number of delays. If `retries` is negative, delaysOf returns all delays.
func delaysOf(p retry.Policy, key string, retries int) (delays []delay) {
	total := time.Duration(0)
	for i, step := range p.Plan(retries) {
		d := p.Next(retry.Attempt{Number: i + 1, Elapsed: total, Seed: retry.SeedOf(key)})
		if !d.Retry() {
			return append(delays, delay{Attempt: i + 1, Reason: d.Reason})
		}
		total += min(d.Delay, step.Total-total) // no overflow: step.Total is at most 292 years
		delays = append(delays, delay{
			Attempt: i + 1,
			Wait:    jsonDuration(d.Delay),
			Total:   jsonDuration(total),
		})
	}
	return delays
}

func printDelays(w io.Writer, delays []delay) {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "after attempt\twait\ttotal")
	for _, d := range delays {
		if d.Reason != "" {
			fmt.Fprintf(table, "%d\t%v\n", d.Attempt, d.Reason)
			continue
		}
		fmt.Fprintf(table, "%d\t%s\t%s\n", d.Attempt, exact(d.Wait), exact(d.Total))
	}
	table.Flush()
}

// exact returns a delay as text, to the nanosecond. The only exception is the longest duration,
// whose text is "292 years".
func exact(d jsonDuration) string {
	if d == math.MaxInt64 {
		return preview.Brief(math.MaxInt64)
	}
	return time.Duration(d).String()
}

// A planJSON is the object that `plan -json` prints. Durations are strings in it, as in a policy.
type planJSON struct {
	File        string       `json:"file"`
	Line        int          `json:"line"`
	At          string       `json:"at,omitempty"`
	Dialect     string       `json:"dialect"`
	Policy      retry.Policy `json:"policy"`
	Summary     string       `json:"summary"`
	MaxAttempts int          `json:"max_attempts"` // including the first attempt; -1 is unlimited
	Plan        []stepJSON   `json:"plan"`
	Delays      []delay      `json:"delays,omitempty"`         // only with -seed: the exact delays
	Timeout     jsonDuration `json:"timeout,omitzero"`         // the timeout of all attempts together
	Attempt     jsonDuration `json:"attempt_timeout,omitzero"` // the timeout of each attempt
	Fits        *int         `json:"fits,omitempty"`           // how many attempts fit into Timeout
	Lint        []finding    `json:"lint"`
	Notes       []string     `json:"notes"`
}

// A finding is a retry.Finding of Lint in the form in which `plan -json` prints it.
type finding struct {
	Code  string `json:"code"`
	Field string `json:"field,omitzero"`
	Key   string `json:"key,omitzero"`
	Text  string `json:"text"`
}

type stepJSON struct {
	Attempt int          `json:"attempt"` // the number of the attempt before the retry
	Lo      jsonDuration `json:"lo"`
	Hi      jsonDuration `json:"hi"`
	Total   jsonDuration `json:"total"` // when the retry starts at the latest
}

type jsonDuration time.Duration

func (d jsonDuration) MarshalText() ([]byte, error) {
	return []byte(time.Duration(d).String()), nil
}

func printJSON(s *streams, p policy, retries int, key string) int {
	form := planJSON{
		File:        p.File,
		Line:        p.Line,
		At:          p.At,
		Dialect:     p.dialect,
		Policy:      p.Policy,
		Summary:     p.String(),
		MaxAttempts: p.EffectiveMax(),
		Plan:        []stepJSON{},
		Timeout:     jsonDuration(p.All),
		Attempt:     jsonDuration(p.Each),
		Lint:        []finding{},
		Notes:       append([]string{}, p.Notes...),
	}
	for _, f := range p.Block.Lint(p.Policy) {
		form.Lint = append(form.Lint, finding{f.Code, f.Field, f.Key, f.Text})
	}
	if fits := p.Fits(p.Policy); fits >= 0 {
		form.Fits = &fits
	}
	for i, step := range p.Effective(p.Policy).Plan(retries) {
		form.Plan = append(form.Plan, stepJSON{
			i + 1, jsonDuration(step.Lo), jsonDuration(step.Hi), jsonDuration(step.Total),
		})
	}
	if key != "" {
		form.Delays = delaysOf(p.Policy, key, retries)
	}
	writeJSON(s.out, form)
	return ok
}
