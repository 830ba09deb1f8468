// Command benchmarks compares retry with the loop written by hand and with other
// retry libraries on the same work, and prints tables. README.md says how it
// measures.
package main

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

func main() {
	if apart() {
		return
	}
	testing.Init() // declares the flags of testing.Benchmark
	rounds := flag.Int("rounds", 5, "how often everything is measured; the median counts")
	benchtime := flag.Duration("benchtime", 70*time.Millisecond, "how long each run takes, of which the fastest of three counts")
	flag.Parse()
	flag.Set("test.benchtime", benchtime.String())

	t := newTable()
	for round := range *rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, *rounds)
		if err := t.measure(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	t.print(os.Stdout)
}
