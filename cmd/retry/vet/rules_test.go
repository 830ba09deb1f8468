package vet

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

// TestRules runs the checks on the snippets in testdata/rules.txtar. If a snippet starts with a comment,
// there must be one report, and it must start with the text of the comment. Otherwise there must be no
// report.
func TestRules(t *testing.T) {
	rules, err := txtar.ParseFile("testdata/rules.txtar")
	require.NoError(t, err)
	require.Equal(t, 114, len(rules.Files))
	var codes []string
	for _, rule := range rules.Files {
		codes = append(codes, string(rule.Data))
	}
	for i, reports := range reported(t, codes) {
		t.Run(rules.Files[i].Name, func(t *testing.T) {
			first, _, _ := strings.Cut(codes[i], "\n")
			want, wanted := strings.CutPrefix(first, "// ")
			if !wanted {
				assert.Empty(t, reports)
				return
			}
			require.Len(t, reports, 1)
			assert.True(t, strings.HasPrefix(reports[0], want), reports[0])
		})
	}
}

// reported returns the reports about each snippet.
func reported(t *testing.T, codes []string) (reports [][]string) {
	dir := module(t)
	for i, code := range codes {
		program(t, filepath.Join(dir, "docs", "rules", strconv.Itoa(i)), " "+strings.ReplaceAll(code, "\n", "\n ")+"\n", " ")
	}
	found := findings(t, dir)
	for i := range codes {
		reports = append(reports, found["misuse/docs/rules/"+strconv.Itoa(i)])
	}
	return reports
}
