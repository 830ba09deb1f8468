package servers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry/adapters/jobtest/servers"
)

// A verdict records whether a function has skipped or failed its test.
type verdict struct {
	testing.TB
	said string
}

func (v *verdict) Helper()               {}
func (v *verdict) Skipf(string, ...any)  { v.said = "skipped" }
func (v *verdict) Fatalf(string, ...any) { v.said = "failed" }

func TestShared(t *testing.T) {
	for _, row := range []struct{ variable, ci, want, said string }{
		{"a:1", "", "a:1", ""}, {"a:1", "true", "a:1", ""}, {"", "", "", "skipped"}, {"", "true", "", "failed"},
	} {
		t.Setenv("RETRY_TEST_NOTHING", row.variable)
		t.Setenv("CI", row.ci)
		v := &verdict{TB: t}
		assert.Equal(t, row.want, servers.Shared(v, "RETRY_TEST_NOTHING"))
		assert.Equal(t, row.said, v.said)
	}
}

func TestAmount(t *testing.T) {
	for text, want := range map[string]int{"": 5, "50": 50} {
		t.Setenv("RETRY_NOTHING", text)
		assert.Equal(t, want, servers.Amount(t, "RETRY_NOTHING", 5))
	}
	t.Setenv("RETRY_NOTHING", "many")
	v := &verdict{TB: t}
	servers.Amount(v, "RETRY_NOTHING", 5)
	assert.Equal(t, "failed", v.said)
}
