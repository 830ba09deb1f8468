package retrysim

// Run simulates s once, with a seed of which everything random depends. It is an
// error if s is invalid, or if the run takes more than MaxEvents or MaxInFlight.
func Run(s System, seed uint64) (Result, error) { panic("TODO") }

// Explain simulates s with the seeds 1 to runs, and once more without retries, and
// finds its [Margin]. Near the margin the runs disagree: ten are a good number. Below
// 1 it is an error.
func Explain(s System, runs int) (Answer, error) { panic("TODO") }

// Margin returns up to how many calls a second of its first entry by name s comes
// back: at least 9 of 10 runs recover, or their queues get shorter. An event that
// changes the rate of this entry is changed in proportion. It returns 0 if there is
// no such rate, and at most 100 times the entry's.
func Margin(s System) (float64, error) { panic("TODO") }

// String says the Answer in a few lines, for people: the margin first.
func (a Answer) String() string { panic("TODO") }
