package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// advice says what to write instead.
func (f *comparison) advice() string {
	err := types.ExprString(f.err)
	if _, ok := f.err.(*ast.Ident); !ok {
		err = "err"
	}
	switch f.kind {
	case "a type assertion":
		return fmt.Sprintf("use errors.As(%s, &target), or look at retry.Unwrap(%[1]s)", err)
	case "a type switch":
		return fmt.Sprintf("use errors.As(%s, &target), or switch on retry.Unwrap(%[1]s)", err)
	case "a switch":
		return fmt.Sprintf("use errors.Is(%s, ...), or switch on retry.Unwrap(%[1]s)", err)
	case "!=":
		return fmt.Sprintf("use !errors.Is(%s, %s)", err, types.ExprString(f.targets[0]))
	}
	return fmt.Sprintf("use errors.Is(%s, %s)", err, types.ExprString(f.targets[0]))
}

// fixes returns the safe fixes of a comparison, if there are any. For an error
// that a call has returned, Unwrap gives the operation's error. The
// operation's own error may still be wrapped.
func (f *comparison) fixes(pass *analysis.Pass, returned bool) []analysis.SuggestedFix {
	file := enclosingFile(pass, f.node.Pos())
	if strings.HasPrefix(f.kind, "os.") {
		return nil
	}
	if f.kind == "==" || f.kind == "!=" {
		name, edits := imported(pass, file, f.node.Pos(), "errors")
		if name == "" {
			return nil
		}
		text := fmt.Sprintf("%s.Is(%s, %s)", name, types.ExprString(f.err), types.ExprString(f.targets[0]))
		if f.kind == "!=" {
			text = "!" + text
		}
		edits = append(edits, analysis.TextEdit{Pos: f.node.Pos(), End: f.node.End(), NewText: []byte(text)})
		return []analysis.SuggestedFix{{Message: "use errors.Is", TextEdits: edits}}
	}
	name, edits := imported(pass, file, f.node.Pos(), retryPath)
	if !returned || name == "" {
		return nil
	}
	edits = append(edits,
		analysis.TextEdit{Pos: f.err.Pos(), NewText: []byte(name + ".Unwrap(")},
		analysis.TextEdit{Pos: f.err.End(), NewText: []byte(")")})
	return []analysis.SuggestedFix{{Message: "look at retry.Unwrap", TextEdits: edits}}
}

func enclosingFile(pass *analysis.Pass, pos token.Pos) *ast.File {
	for _, file := range pass.Files {
		if file.FileStart <= pos && pos < file.FileEnd {
			return file
		}
	}
	return nil
}

// imported returns the name of an imported package, and the edit that imports
// it if the file does not. The name is the last element of path. It is "" if
// something else has that name.
func imported(pass *analysis.Pass, file *ast.File, pos token.Pos, path string) (string, []analysis.TextEdit) {
	name := path[strings.LastIndex(path, "/")+1:]
	var edits []analysis.TextEdit
	i := slices.IndexFunc(file.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == strconv.Quote(path) })
	switch {
	case i < 0 && len(file.Imports) == 0:
		return "", nil
	case i < 0:
		first := file.Imports[0]
		text := strconv.Quote(path) + "\n"
		if decl := file.Decls[0].(*ast.GenDecl); !decl.Lparen.IsValid() {
			return name, append(edits, analysis.TextEdit{Pos: decl.Pos(), NewText: []byte("import " + text)})
		}
		edits = append(edits, analysis.TextEdit{Pos: first.Pos(), NewText: []byte(text)})
	case file.Imports[i].Name != nil:
		name = file.Imports[i].Name.Name
	}
	scope := pass.Pkg.Scope().Innermost(pos)
	if scope == nil {
		return "", nil
	}
	_, obj := scope.LookupParent(name, pos)
	if pkg, ok := obj.(*types.PkgName); ok && pkg.Imported().Path() == path || obj == nil && i < 0 {
		return name, edits
	}
	return "", nil
}
