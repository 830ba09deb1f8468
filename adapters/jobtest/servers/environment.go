package servers

import (
	"os"
	"strconv"
	"testing"
)

// Shared returns the value of an environment variable, which is the address of a server that
// several tests share. If the variable is not set, Shared skips the test. If the environment
// variable CI is "true", Shared fails the test instead.
func Shared(t testing.TB, variable string) string {
	t.Helper()
	address := os.Getenv(variable)
	switch {
	case address != "":
	case os.Getenv("CI") == "true":
		t.Fatalf("%s is not set", variable)
	default:
		t.Skipf("%s is not set: .ci/services starts a server and sets it", variable)
	}
	return address
}

// Amount returns the value of an environment variable as a number, for example the number of
// jobs or kills in a test. The script .ci/soak sets such variables for long tests. If the
// variable is not set, Amount returns the parameter `short`, the number for a short test.
func Amount(t testing.TB, variable string, short int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return short
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}
