// Command benchmarks measures retry beside the loop written by hand and the
// other retry libraries on the same work, and prints a table. README.md says
// how.
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
	benchtime := flag.Duration("benchtime", 200*time.Millisecond, "how long each measurement takes")
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
