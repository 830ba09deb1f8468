// Plan checks a retry policy before anything runs by it, and prints what it
// will do: each delay, how it ends, and how long it takes in the worst case.
//
//	go run . policy.yaml
//	go run . -seed order-42 policy.json
//	go run . -dialect tasker < tasker.yaml
//
// The file is YAML, or JSON if its name ends in .json; without a file it is
// standard input, either of the two. It holds a policy, or anything else with
// a policy under the key retry (work_config for Argyll). A file that is wrong
// is one line on standard error and exit status 1. What is sound but surely
// not meant is printed as a note.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/goretry/retry"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("plan", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: plan [flags] [file]")
		flags.PrintDefaults()
	}
	name := flags.String("dialect", "retry", "what the file is written in: "+strings.Join(dialectNames(), ", "))
	retries := flags.Int("retries", 10, "print at most this many retries, all of them if negative")
	key := flags.String("seed", "", "print the exact delays of the job with this `key`")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	dialect, ok := dialects[*name]
	if !ok {
		fmt.Fprintf(stderr, "plan: -dialect is %q: write one of %s\n", *name, strings.Join(dialectNames(), ", "))
		return 2
	}
	if flags.NArg() > 1 {
		fmt.Fprintf(stderr, "plan: there are %d files: write one, and the flags before it\n", flags.NArg())
		return 2
	}

	file := flags.Arg(0)
	policy, err := load(file, stdin, dialect)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintln(stdout, policy.Preview(*retries))
	for _, note := range policy.Lint() {
		fmt.Fprintln(stdout, "Note:", note)
	}
	if *key != "" {
		fmt.Fprintf(stdout, "\nThe delays of %q, whose seed is %d:\n\n", *key, retry.SeedOf(*key))
		printDelays(stdout, policy, *key, *retries)
	}
	return 0
}

// printDelays prints what a job that always fails waits, to the nanosecond.
func printDelays(w io.Writer, p retry.Policy, key string, retries int) {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "after attempt\twait\ttotal")
	total := time.Duration(0)
	for _, step := range p.Plan(retries) {
		d := p.Next(retry.Attempt{Number: step.Attempt, Elapsed: total, Seed: retry.SeedOf(key)})
		if !d.Retry() {
			fmt.Fprintf(table, "%d\t%v\n", step.Attempt, d.Reason)
			break
		}
		total += min(d.Delay, step.Total-total) // Total stops at 292 years
		fmt.Fprintf(table, "%d\t%v\t%v\n", step.Attempt, d.Delay, total)
	}
	table.Flush()
}
