package servers

import (
	"os"
	"strconv"
	"testing"
)

// Shared returns the address of a server that tests share: the value of an environment
// variable. If the variable is not set, Shared skips the test. In CI it fails the test
// instead.
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

// Amount returns how many things a test uses, such as jobs or kills: the value of an
// environment variable, which .ci/soak sets. If the variable is not set, it returns short.
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
