// Herd simulates clients that retry, with the curves, jitters and budgets of this
// library, and prints its results beside those of other simulators. docs/why.md
// explains them.
//
//	go run ./examples/herd
//	go run ./examples/herd -svg docs    also draws them
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("herd", flag.ContinueOnError)
	flags.SetOutput(stderr)
	seed := flags.Uint64("seed", 1, "seed of all random numbers: the same seed prints the same tables")
	trials := flags.Int("trials", 20, "number of herds to average")
	svg := flags.String("svg", "", "also draw the tables, as SVG files in this directory")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *trials < 1 {
		fmt.Fprintf(stderr, "herd: -trials is %d: write at least 1\n", *trials)
		return 2
	}

	herds := simulateHerds(*seed, *trials)
	loads := simulateLoads(*seed)
	printHerds(stdout, herds)
	printLoads(stdout, loads)

	if *svg == "" {
		return 0
	}
	for name, c := range map[string]chart{
		"herd.svg":   herdChart(herds),
		"budget.svg": loadChart(loads),
	} {
		if err := os.WriteFile(filepath.Join(*svg, name), c.svg(), 0o644); err != nil {
			fmt.Fprintln(stderr, "herd:", err)
			return 1
		}
	}
	return 0
}

// table prints a title and rows whose cells are separated by tabs.
func table(w io.Writer, title string, rows func(w io.Writer)) {
	fmt.Fprintf(w, "%s\n\n", title)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	rows(t)
	t.Flush()
	fmt.Fprintln(w)
}
