// Command benchmarks reads the output of the benchmarks in this directory and prints it as
// tables. A table has the CPU time of each library as a multiple of the CPU time of a retry loop
// that is written by hand. With -http the command measures HTTP clients instead.
//
//	./run 5
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

func main() {
	serves := flag.Bool("serve", false, "run the servers of -http")
	rounds := flag.Int("http", 0, "measure HTTP clients in this many rounds")
	flag.Parse()
	var err error
	switch {
	case *serves:
		err = serve()
	case *rounds > 0:
		err = measureWires(*rounds)
	default:
		err = tables(os.Stdin)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

// tables reads the output of the benchmarks and prints the tables.
func tables(printed io.Reader) error {
	rounds := map[string][]float64{} // measured values by work, library and unit
	var works, libs []string
	for in := bufio.NewScanner(printed); in.Scan(); {
		fields := strings.Fields(in.Text())
		work, lib, compared := strings.Cut(strings.TrimPrefix(in.Text(), "Benchmark"), "/lib=")
		if !compared || len(fields) < 4 {
			continue
		}
		// go test appends the number of processors to the name of the library: "avast-8".
		lib = strings.TrimRight(strings.Fields(lib)[0], "0123456789")
		works, libs = add(works, work), add(libs, lib)
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return err
			}
			key := work + lib + fields[i+1]
			rounds[key] = append(rounds[key], value)
		}
	}
	for _, question := range []struct{ text, works string }{
		{"What does a first try cost?", "Calls/FirstTry Calls/Once"},
		{"What do ten failures cost?", "Calls/TenFailures"},
		{"How much memory does a waiting call take?", "Calls/Waiting"},
	} {
		head := cells(libs, func(lib string) string { return strings.TrimSuffix(lib, "-") })
		line := strings.Repeat(" --- |", len(libs)+1)
		fmt.Printf("### %s\n\n| |%s\n|%s\n", question.text, head, line)
		for _, work := range works {
			asked := func(prefix string) bool { return strings.HasPrefix(work, prefix) }
			if slices.ContainsFunc(strings.Fields(question.works), asked) {
				row := cells(libs, func(lib string) string { return cell(rounds, work, lib) })
				fmt.Printf("| %s |%s\n", work, row)
			}
		}
		fmt.Println()
	}
	return nil
}

func add(all []string, one string) []string {
	if slices.Contains(all, one) {
		return all
	}
	return append(all, one)
}

func cells(libs []string, cell func(lib string) string) (row string) {
	for _, lib := range libs {
		row += " " + cell(lib) + " |"
	}
	return row
}

// cell returns the text of one cell. Times and bytes are divided by the times and bytes of the
// handwritten loop, which has the name "bare". Numbers of allocations are not divided.
func cell(rounds map[string][]float64, work, lib string) string {
	var texts []string
	for _, unit := range []string{"cpu-ns/op", "cpu-ns/call", "B/call", "allocs/op"} {
		measured, bare := rounds[work+lib+unit], rounds[work+"bare-"+unit]
		switch {
		case measured == nil:
		case unit == "allocs/op":
			texts = append(texts, fmt.Sprintf("%.0f", median(measured)))
		case lib == "bare-":
			name, _, _ := strings.Cut(strings.TrimPrefix(unit, "cpu-"), "/")
			texts = append(texts, fmt.Sprintf("%.4g %s", median(measured), name))
		default:
			texts = append(texts, fmt.Sprintf("%.2fx", median(measured)/median(bare)))
		}
	}
	return strings.Join(texts, ", ")
}

func median(xs []float64) float64 { return slices.Sorted(slices.Values(xs))[len(xs)/2] }
