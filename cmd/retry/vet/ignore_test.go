package vet

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Comments silence checks. Without a comment, the code of each row has two findings: only a success
// ends the call, and the policy does not wait.
func TestCommentsSilenceChecks(t *testing.T) {
	const both = "err = retry.Do(context.Background(), retry.Policy{MaxAttempts: retry.Unlimited}, ping)"
	rows := []struct {
		name, code, want string
	}{
		{"without a comment", both, "endless policyliteral"},
		{"at the end of the line", both + " //retry:vet-ignore endless it is a cache", "policyliteral"},
		{"before the line", "//retry:vet-ignore endless it is a cache\n" + both, "policyliteral"},
		{"two findings, two comments", "//retry:vet-ignore endless it is a cache\n//retry:vet-ignore policyliteral it is a cache\n" + both, ""},
		{"two findings, one comment on each side", "//retry:vet-ignore endless it is a cache\n" + both + " //retry:vet-ignore policyliteral it is a cache", ""},
		{"before a comment", "//retry:vet-ignore endless it is a cache\n// Warm up.\n" + both, "policyliteral"},
		{"at the end of the line before", "_ = data //retry:vet-ignore endless it is a cache\n" + both, "endless policyliteral"},
		{"two lines before", "//retry:vet-ignore endless it is a cache\n\n" + both, "endless policyliteral"},
		{"on the line after", both + "\n//retry:vet-ignore endless it is a cache", "endless policyliteral"},
		{"another check", both + " //retry:vet-ignore nested it is a cache", "endless policyliteral"},
		{"a longer name", both + " //retry:vet-ignore endlesso it is a cache", "endless policyliteral"},
		{"all is not a check", both + " //retry:vet-ignore all it is a cache", "endless policyliteral"},
		{"no reason", both + " //retry:vet-ignore endless", "endless endless policyliteral"},
		{"no check", both + " //retry:vet-ignore", "endless outerctx policyliteral"},
		{"not a directive", both + " // retry:vet-ignore endless it is a cache", "endless policyliteral"},
		{"nolint", both + " //nolint:retryvet", ""},
		{"nolint with others and a reason", both + " //nolint:errcheck,retryvet // it is a cache", ""},
		{"nolint before the line", "//nolint:retryvet\n" + both, ""},
		{"nolint of another linter", both + " //nolint:retryvetter", "endless policyliteral"},
		{"nolint of all linters", both + " //nolint", "endless policyliteral"},
	}
	var codes []string
	for _, row := range rows {
		codes = append(codes, row.code)
	}
	for i, reports := range reported(t, codes) {
		var checks []string
		for _, report := range reports {
			check, _, _ := strings.Cut(report, ":")
			checks = append(checks, check)
		}
		assert.ElementsMatch(t, strings.Fields(rows[i].want), checks, rows[i].name)
	}
}
