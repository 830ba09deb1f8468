package retry_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Programs should use the fields of a Finding and the Reason of an error, and not parse texts. So
// no code of this repository may match the text of an error or of a Finding. This test follows such
// texts through the sources. They start at a call of Error, InKeys or fmt.Sprint, and flow through
// variables and into the parameters of functions of the same package.
func TestPrincipleNoToolParsesAMessage(t *testing.T) {
	// In these functions, only the text of an error distinguishes the cases. The value of each
	// function says which errors these are.
	allowed := map[string]string{
		"cmd/retry/withHint":                      "package flag: its error has no type",
		"cmd/retry/internal/policyfile/splitYAML": "go.yaml.in/yaml: a syntax error has its line nowhere else",
		"retryflow/noetl/yamlError":               "go.yaml.in/yaml: a syntax error has its line nowhere else",
		"retryflow/noetl/config":                  "go.yaml.in/yaml: its first line says nothing",
		"retryhttp/gaveUp":                        "net/http: a request that its Cancel ended",
		"retryhttp/refused":                       "net/http and x/net/http2: GOAWAY has no exported type",
		"retrynet/alertStays":                     "crypto/tls: an alert of the other side has no exported type",
		"retrynet/judgeText":                      "net/http and crypto/tls: errors without a type",
		"retrynet/judgeWrapped":                   "quic-go: all of its errors wrap net.ErrClosed",
		"retrynet/resetPasses":                    "x/net/http2: the cause of a reset stream",
		"retrysql/answerOf":                       "pgx and lib/pq: a COMMIT that was answered by ROLLBACK",
		"retrysql/lost":                           "go-sql-driver/mysql, pgx and lib/pq: a connection that is lost, or to another server",
		"retrysql/passes":                         "PostgreSQL: one code for many features; only one of these errors is temporary",
		"retrysql/standby":                        "PostgreSQL: one code for many features",
		"retrysql/rolledBack":                     "any driver: whether one text contains the other, so that it is printed only once",
		"adapters/retryrpc/tooLarge":              "grpc-go and connect-go: a message that is refused as too large has no type",
		"adapters/retryconnect/broken":            "net/http and x/net/http2: a connection that broke has no exported type",
		"adapters/retryriver/storable":            "any error: whether PostgreSQL can store its text unchanged",
		"adapters/jobtest/exceptForged":           "the Redrive of any queue under test: its error has no type",
		"Error":                                   "an Error in an Error: the prefix is printed once",
	}
	found := map[string]bool{}
	for dir, files := range packageSources(t) {
		for _, use := range matchedTexts(files) {
			found[path.Join(dir, use)] = true
		}
	}
	for use := range found {
		assert.Contains(t, allowed, use, "this function matches the text of an error or of a finding")
	}
	for use := range allowed {
		assert.Contains(t, found, use, "this function no longer matches a text: remove the entry")
	}
}

// In the source below, the functions before the blank line match the text of an error or of a
// finding. The functions after the blank line do not.
func TestMatchedTexts(t *testing.T) {
	const source = `package p
func contains(err error) bool { return strings.Contains(err.Error(), "x") }
func variable(err error) bool { text := err.Error(); return strings.HasPrefix(text, "x") }
func pointed(err *error) bool { text := (*err).Error(); return text == "x" }
func part(err error) bool { return strings.HasPrefix(err.Error()[2:], "x") }
func split(err error) (all []string) { return strings.Split("a"+err.Error(), "; ") }
func cleaned(err error) bool { return strings.HasSuffix(strings.ToLower(err.Error()), "x") }
func pattern(err error) bool { return word.MatchString(err.Error()) }
func switched(err error) { switch err.Error() { case "x": } }
func ranged(p Policy) { for _, f := range p.Lint() { strings.Cut(f.String(), ":") } }
func keyed(f Finding) bool { return strings.Contains(f.InKeys(), "x") }
func printed(err error) bool { return strings.Contains(fmt.Sprint(err), "x") }
func formatted(err error) bool { return strings.Contains(fmt.Sprintf("%v", err), "x") }
func passes(err error) { takes(1, err.Error()) }
func takes(n int, text string) { alsoTakes(text) }
func alsoTakes(text string) { strings.Index(text, "x") }
func literal() { f := func(err error) bool { return strings.Contains(err.Error(), "x") }; f(nil) }

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
func empty(err error) bool { return err.Error() == "" }
func shown(err error) { fmt.Println(err.Error()) }
func other(text string) bool { return strings.Contains(text, "x") }
func value(err error) bool { text := err.Error(); _ = text; other := "y"; return strings.Contains(other, "x") }
`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"alsoTakes", "cleaned", "contains", "formatted", "keyed", "literal", "part", "pattern", "pointed", "printed", "ranged", "split", "switched", "variable",
	}, matchedTexts([]*ast.File{file}))
}

// packageSources returns the sources of all packages of this repository, by directory, without
// tests, examples and testdata.
func packageSources(t *testing.T) map[string][]*ast.File {
	packages := map[string][]*ast.File{}
	require.NoError(t, filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch skipped := []string{"testdata", "examples", "benchmarks", "integration"}; {
		case err != nil:
			return err
		case entry.IsDir() && (slices.Contains(skipped, entry.Name()) || len(entry.Name()) > 1 && strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			dir := filepath.ToSlash(filepath.Dir(name))
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			packages[dir] = append(packages[dir], file)
			return err
		}
		return nil
	}))
	require.Greater(t, len(packages), 40)
	return packages
}

// matchedTexts returns the functions of a package that match the text of an error or of a
// finding, sorted.
func matchedTexts(files []*ast.File) (found []string) {
	functions := map[string][]*ast.FuncDecl{} // methods too
	for _, file := range files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
				functions[f.Name.Name] = append(functions[f.Name.Name], f)
			}
		}
	}
	texts := map[string]map[int]bool{} // for each function, the indexes of the parameters that get the text of an error or a finding
	for changed := true; changed; {
		changed, found = false, nil
		for name, all := range functions {
			for _, f := range all {
				m := messages{names: map[string]bool{}, findings: map[string]bool{}}
				for i, param := range parameters(f) {
					m.names[param] = texts[name][i]
				}
				m.follow(f.Body)
				if m.matched {
					found = append(found, name)
				}
				for callee, args := range m.passed {
					if functions[callee] == nil {
						continue
					}
					for i := range args {
						if texts[callee] == nil {
							texts[callee] = map[int]bool{}
						}
						changed = changed || !texts[callee][i]
						texts[callee][i] = true
					}
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func parameters(f *ast.FuncDecl) (names []string) {
	for _, field := range f.Type.Params.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

// The type `messages` follows the texts of errors and findings through a function.
type messages struct {
	names    map[string]bool         // variables that contain the text of an error or of a finding
	findings map[string]bool         // variables that are a finding
	passed   map[string]map[int]bool // for each called function, the indexes of the arguments that have such a text
	matched  bool
}

func (m *messages) follow(body *ast.BlockStmt) {
	m.passed = map[string]map[int]bool{}
	for before := -1; before != len(m.names)+len(m.findings); { // in a loop, a variable may get a text after its use
		before = len(m.names) + len(m.findings)
		ast.Inspect(body, func(n ast.Node) bool { m.visit(n); return true })
	}
}

func (m *messages) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, to := range n.Lhs {
			if id, ok := to.(*ast.Ident); ok && m.isText(n.Rhs[min(i, len(n.Rhs)-1)]) {
				m.names[id.Name] = true
			}
		}
	case *ast.RangeStmt:
		call, _ := n.X.(*ast.CallExpr)
		id, isID := n.Value.(*ast.Ident)
		if _, name := called(call); isID && (name == "Lint" || name == "Findings") {
			m.findings[id.Name] = true
		}
		if isID && m.isText(n.X) {
			m.names[id.Name] = true
		}
	case *ast.BinaryExpr:
		_, literal := n.Y.(*ast.BasicLit)
		empty := literal && n.Y.(*ast.BasicLit).Value == `""`
		equal := n.Op == token.EQL || n.Op == token.NEQ
		m.matched = m.matched || equal && !empty && (m.isText(n.X) || m.isText(n.Y))
	case *ast.SwitchStmt:
		m.matched = m.matched || n.Tag != nil && m.isText(n.Tag)
	case *ast.CallExpr:
		pkg, name := called(n)
		for i, arg := range n.Args {
			switch {
			case !m.isText(arg):
			case matches(pkg, name):
				m.matched = true
			default:
				if m.passed[name] == nil {
					m.passed[name] = map[int]bool{}
				}
				m.passed[name][i] = true
			}
		}
	}
}

// The function `called` returns the name of the function in a call, and the identifier before the
// dot.
func called(call *ast.CallExpr) (pkg, name string) {
	if call == nil {
		return "", ""
	}
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return "", f.Name
	case *ast.SelectorExpr:
		if id, ok := f.X.(*ast.Ident); ok {
			pkg = id.Name
		}
		return pkg, f.Sel.Name
	}
	return "", ""
}

// The function `matches` reports whether a function looks for something in a text.
func matches(pkg, name string) bool {
	if pkg == "strings" || pkg == "bytes" {
		for _, prefix := range []string{"Contains", "Has", "Cut", "Index", "LastIndex", "Split", "EqualFold", "Count", "TrimPrefix", "TrimSuffix", "Compare"} {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		}
		return false
	}
	return strings.HasPrefix(name, "Match") || strings.HasPrefix(name, "Find") || strings.HasPrefix(name, "ReplaceAll") // methods of a regexp
}

// isText reports whether an expression is the text of an error or of a finding, or contains
// such a text.
func (m *messages) isText(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return m.names[e.Name]
	case *ast.BinaryExpr:
		return e.Op == token.ADD && (m.isText(e.X) || m.isText(e.Y))
	case *ast.SliceExpr:
		return m.isText(e.X)
	case *ast.IndexExpr:
		return m.isText(e.X)
	case *ast.CallExpr:
		return m.returnsText(e)
	}
	return false
}

func (m *messages) returnsText(call *ast.CallExpr) bool {
	pkg, name := called(call)
	method, _ := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	switch {
	case name == "Error" && method != nil && len(call.Args) == 0, name == "InKeys" && method != nil:
		return true
	case name == "String" && method != nil:
		id, ok := method.X.(*ast.Ident)
		return ok && m.findings[id.Name]
	case pkg == "fmt" && strings.HasPrefix(name, "Sprint"):
		return slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
			id, ok := arg.(*ast.Ident)
			return m.isText(arg) || ok && (id.Name == "err" || m.findings[id.Name])
		})
	case pkg == "strings" || pkg == "bytes" || pkg == "" && (name == "string" || name == "append") || strings.HasPrefix(name, "ReplaceAll"):
		return !strings.HasPrefix(name, "Contains") && !strings.HasPrefix(name, "Has") && slices.ContainsFunc(call.Args, m.isText)
	}
	return false
}
