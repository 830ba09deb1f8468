package vet

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/tools/go/analysis"
)

// A place is a line of a file.
type place struct {
	file string
	line int
}

func placeOf(pass *analysis.Pass, pos token.Pos) place {
	p := pass.Fset.Position(pos)
	return place{p.Filename, p.Line}
}

const ignorePrefix = "//retry:vet-ignore"

var nolint = regexp.MustCompile(`^//\s*nolint:[\w,-]*\bretryvet\b`)

// findIgnores finds the comments that silence a check. Such a comment applies to its own line. If
// its own line has no code, the comment applies to the next line.
func (u *uses) findIgnores(pass *analysis.Pass) {
	u.ignored = map[place][]string{}
	for _, file := range pass.Files {
		// Most files have no comment that silences a check. Then codeLines is not called.
		code := sync.OnceValue(func() map[int]bool { return codeLines(pass, file) })
		for _, group := range file.Comments {
			for _, comment := range group.List {
				rest, ok := strings.CutPrefix(comment.Text, ignorePrefix)
				if !ok && !nolint.MatchString(comment.Text) {
					continue
				}
				at := placeOf(pass, comment.Pos())
				if !code()[at.line] {
					at.line = placeOf(pass, group.End()).line + 1
				}
				if fields := strings.Fields(rest); !ok {
					u.ignored[at] = append(u.ignored[at], "")
				} else if len(fields) > 1 {
					u.ignored[at] = append(u.ignored[at], fields[0])
				} else {
					u.unreasoned = append(u.unreasoned, comment)
				}
			}
		}
	}
}

// codeLines returns the lines of a file on which code begins or ends.
func codeLines(pass *analysis.Pass, file *ast.File) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case nil, *ast.Comment, *ast.CommentGroup:
			return false
		}
		lines[placeOf(pass, n.Pos()).line], lines[placeOf(pass, n.End()).line] = true, true
		return true
	})
	return lines
}
