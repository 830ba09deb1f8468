// Pictures makes the tables and pictures of docs/why.md and docs/simulate.md. It simulates clients
// that retry with the backoff, jitter and budgets of this library. It prints its results next to
// the results of other simulators. It also simulates an outage that never ends because each request
// is retried once.
//
//	go run . ../../../docs
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "pictures: write the directory for the pictures, such as ../../../docs")
		os.Exit(2)
	}
	if err := run(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, dir string) error {
	herds, loads := simulateHerds(1, 20), simulateLoads(1)
	printHerds(w, herds)
	printLoads(w, loads)
	rescues, err := simulateRescues(10, "10m")
	if err != nil {
		return err
	}
	for _, r := range rescues {
		fmt.Fprintf(w, "%s:\n%v\n", r.name, r.answer)
	}
	for name, picture := range map[string][]byte{
		"herd.svg":    herdChart(herds).svg(),
		"budget.svg":  loadChart(loads).svg(),
		"outage.svg":  draw([]rescue{rescues[0], rescues[4]}),
		"rescues.svg": draw(rescues),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), picture, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// The function `table` prints a title and a table. It calls `rows`, which must write the rows of
// the table with a tab after each cell.
func table(w io.Writer, title string, rows func(w io.Writer)) {
	fmt.Fprintf(w, "%s\n\n", title)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	rows(t)
	t.Flush()
	fmt.Fprintln(w)
}
