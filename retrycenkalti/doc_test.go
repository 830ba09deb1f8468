package retrycenkalti_test

import (
	"cmp"
	"go/ast"
	"go/build"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A line of the page in the package documentation: a call of v4, and what to
// write instead. Either is several lines of text where the left column goes on
// blank or indented.
type line struct{ v4, instead string }

// page returns the lines of the page, and the code that stands below it.
func page(t *testing.T) (lines []line, below string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	require.NoError(t, err)
	var code []string
	for _, block := range new(comment.Parser).Parse(file.Doc.Text()).Content {
		if block, ok := block.(*comment.Code); ok {
			code = append(code, block.Text)
		}
	}
	require.Len(t, code, 2)

	head, table, _ := strings.Cut(code[0], "\n")
	column := strings.Index(head, "instead")
	for text := range strings.Lines(table) {
		left, right := text[:min(column, len(text)-1)], text[min(column, len(text)-1):]
		require.Regexp(t, `^(.* )?$`, left, "the left column is wider than its head")
		switch {
		case left == "":
		case left[0] != ' ':
			lines = append(lines, line{left, right})
		default:
			last := &lines[len(lines)-1]
			last.v4 += "\n" + left
			last.instead += right
		}
	}
	return lines, code[1]
}

// statements returns the Go tokens of a text with a space after each, a line
// for each statement, and no comments.
func statements(text string) string {
	var s scanner.Scanner
	set := token.NewFileSet()
	s.Init(set.AddFile("", set.Base(), len(text)), []byte(text), nil, 0)
	var b strings.Builder
	for {
		_, tok, lit := s.Scan()
		switch {
		case tok == token.EOF:
			return b.String()
		case tok == token.SEMICOLON && lit == "\n":
			b.WriteString("\n ")
		default:
			b.WriteString(cmp.Or(lit, tok.String()) + " ")
		}
	}
}

// exported returns the names that a package exports, with the methods of its
// type of this name.
func exported(t *testing.T, path, typeName string) (names []string) {
	t.Helper()
	pkg, err := build.Import(path, ".", 0)
	require.NoError(t, err)
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(set, filepath.Join(pkg.Dir, name), nil, 0)
		require.NoError(t, err)
		files = append(files, file)
	}
	p, err := doc.NewFromFiles(set, files, pkg.ImportPath)
	require.NoError(t, err)

	values := func(values []*doc.Value) {
		for _, v := range values {
			names = append(names, v.Names...)
		}
	}
	funcs := func(funcs []*doc.Func) {
		for _, f := range funcs {
			names = append(names, f.Name)
		}
	}
	values(p.Consts)
	values(p.Vars)
	funcs(p.Funcs)
	for _, typ := range p.Types {
		names = append(names, typ.Name)
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs)
		if typ.Name == typeName {
			funcs(typ.Methods)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !ast.IsExported(name) })
}

// TestThePageNamesAllOfV4 reads the source of v4: whatever it exports has a line
// of the page, and so has errors.As, which finds its mark.
func TestThePageNamesAllOfV4(t *testing.T) {
	lines, _ := page(t)
	var left strings.Builder
	for _, l := range lines {
		left.WriteString(l.v4 + "\n")
	}
	names := append(exported(t, "github.com/cenkalti/backoff/v4", "ExponentialBackOff"), "errors.As")
	for _, name := range names {
		assert.Regexp(t, `\b`+name+`\b`, left.String(), "the page does not say what to write for %s", name)
	}
	assert.Greater(t, len(names), 40)
}

// TestThePageNamesWhatThereIs: retry.X is a name of the root package, in the
// code of the page and in its comments.
func TestThePageNamesWhatThereIs(t *testing.T) {
	lines, _ := page(t)
	names := exported(t, "github.com/goretry/retry", "")
	named := 0
	for _, l := range lines {
		for _, match := range regexp.MustCompile(`\bretry\.(\w+)`).FindAllStringSubmatch(l.instead, -1) {
			assert.Contains(t, names, match[1], l.v4)
			named++
		}
	}
	assert.Greater(t, named, 30)
}

// TestThePageIsWrittenOut: the code of each line stands in page_test.go, in one
// statement with the call of v4, and so compiles and does the same.
func TestThePageIsWrittenOut(t *testing.T) {
	source, err := os.ReadFile("page_test.go")
	require.NoError(t, err)
	written := strings.Split(statements(string(source)), "\n")
	lines, below := page(t)
	withCode := 0
	for _, l := range lines {
		v4, _, _ := strings.Cut(l.v4, "\n")
		v4, instead := " "+firstStatement(v4), " "+firstStatement(l.instead)
		if instead == " " {
			assert.Contains(t, l.instead, "// ", "nothing to write, and no word on it: %s", l.v4)
			continue
		}
		withCode++
		assert.True(t, slices.ContainsFunc(written, func(statement string) bool {
			return strings.Contains(statement, v4) && strings.Contains(statement, instead)
		}), "page_test.go has no statement with%sand%s", v4, instead)
	}
	assert.Greater(t, withCode, 25)
	assert.Contains(t, statements(string(source)), statements(below))
}

func firstStatement(text string) string {
	first, _, _ := strings.Cut(statements(text), "\n")
	return first
}
