package vet

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Each row is code between whose lines comments silence what TestIgnores finds
// without them: that the result is dropped, and that MaxAttempts is invalid.
func TestIgnores(t *testing.T) {
	const both = "retry.Do(ctx, retry.Policy{MaxAttempts: -2}, ping)"
	rows := []struct {
		name, code, want string
	}{
		{"without a comment", both, "lost policyliteral"},
		{"at the end of the line", both + " //retry:vet-ignore lost it is a cache", "policyliteral"},
		{"before the line", "//retry:vet-ignore lost it is a cache\n" + both, "policyliteral"},
		{"two findings, two comments", "//retry:vet-ignore lost it is a cache\n//retry:vet-ignore policyliteral it is a cache\n" + both, ""},
		{"two findings, one comment on each side", "//retry:vet-ignore lost it is a cache\n" + both + " //retry:vet-ignore policyliteral it is a cache", ""},
		{"before a comment", "//retry:vet-ignore lost it is a cache\n// Warm up.\n" + both, "policyliteral"},
		{"at the end of the line before", "_ = data //retry:vet-ignore lost it is a cache\n" + both, "lost policyliteral"},
		{"two lines before", "//retry:vet-ignore lost it is a cache\n\n" + both, "lost policyliteral"},
		{"on the line after", both + "\n//retry:vet-ignore lost it is a cache", "lost policyliteral"},
		{"another check", both + " //retry:vet-ignore nested it is a cache", "lost policyliteral"},
		{"a name that is longer", both + " //retry:vet-ignore losto it is a cache", "lost policyliteral"},
		{"all is no name", both + " //retry:vet-ignore all it is a cache", "lost policyliteral"},
		{"no reason", both + " //retry:vet-ignore lost", "lost lost policyliteral"},
		{"no check", both + " //retry:vet-ignore", "lost outerctx policyliteral"},
		{"not a directive", both + " // retry:vet-ignore lost it is a cache", "lost policyliteral"},
		{"nolint", both + " //nolint:retryvet", ""},
		{"nolint with others and a reason", both + " //nolint:errcheck,retryvet // it is a cache", ""},
		{"nolint before the line", "//nolint:retryvet\n" + both, ""},
		{"nolint of another", both + " //nolint:retryvetter", "lost policyliteral"},
		{"nolint of all linters", both + " //nolint", "lost policyliteral"},
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
