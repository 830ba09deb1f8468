//go:build shape

package retry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// These tests look at the sources and at what the compiler makes of them, not at
// what the package does. .ci/run runs them apart, because they take longer:
//
//	go test -tags shape .

// The root waits in one place, the select of Do, by one time.After; what else must
// wait does so through internal/wait. Each function of the root package that reads
// the clock, and each that waits in the packages below it, is listed here.
func TestPrinciple04DecisionAndWaitingAreApart(t *testing.T) {
	allowed := map[string][]string{
		"retry.go": {
			"Do: select", "wait: time.After",
			"cannotBegin: time.Now", "timeFirst: time.Now", "watchFirst: time.Now", "execute: time.Now", "execute: context.WithDeadlineCause", "now: time.Now",
		},
		"once.go":               {"watchedOnce: time.Now"},
		"budget.go":             {"takeUpTo: time.Now", "refill: time.Since"}, // not a decision: Next never touches a Budget
		"internal/wait/wait.go": {"For: time.NewTimer"},
		"retryflow/pipeline.go": {"wait: wait.For"}, // before a jump
		// These bound one attempt, the reading of one body, and the run of a
		// custom type's method. None of them waits for the next attempt.
		"retryhttp/exchange.go": {"attempt: time.AfterFunc", "discardAndWait: wait.For"},
		"retryhttp/stall.go":    {"watched: time.AfterFunc"},
		"retryhttp/discard.go":  {"discard: time.NewTimer", "cutOff: time.NewTimer"},
		"retryhttp/trailer.go":  {"await: time.NewTimer"}, // until a body is closed
		"retryhttp/gate.go":     {"hold: wait.For"},
		// A fault that a test injects, and that is meant to be slow.
		"retryhttp/httpfault/httpfault.go": {"Slow: time.NewTimer"},
		"retrytest/conformance.go":         {"check: time.NewTimer"},
	}
	used := make(map[string][]string)
	// Programs, which are not part of the library, and tests of servers, in real time.
	apart := regexp.MustCompile("^(examples|internal/jobtest|internal/servers)/")
	for file, parsed := range sources(t, ".", "retryflow") {
		root := path.Dir(file) == "."
		if apart.MatchString(file) {
			continue
		}
		for _, use := range clockUses(parsed, root) {
			if _, call, _ := strings.Cut(use, ": "); (root || waits[call]) && !slices.Contains(used[file], use) {
				used[file] = append(used[file], use)
			}
		}
	}
	for file := range used {
		assert.ElementsMatch(t, allowed[file], used[file], file)
	}
	assert.NotEmpty(t, used["retry.go"], "the search did not find the loop")
}

func TestPrinciple10StandardLibraryNoGoroutineNoRecoverNoGlobalStateNoHiddenMethods(t *testing.T) {
	const module = "github.com/goretry/retry"
	files := sources(t, ".")
	ofRoot := map[string]bool{".": true} // the root, and the packages that it is made of
	for file, parsed := range files {
		for _, imported := range imports(parsed) {
			if dir, below := strings.CutPrefix(imported, module+"/"); below && path.Dir(file) == "." {
				ofRoot[dir] = true
			}
		}
	}
	require.Greater(t, len(ofRoot), 1)

	t.Run("the standard library only", func(t *testing.T) {
		for file, parsed := range files {
			ours := module
			if ofRoot[path.Dir(file)] {
				ours = module + "/internal/"
			}
			for _, imported := range imports(parsed) {
				first, _, _ := strings.Cut(imported, "/")
				cenkalti := path.Dir(file) == "retrycenkalti" && strings.HasPrefix(imported, "github.com/cenkalti/backoff/")
				ok := !strings.Contains(first, ".") || strings.HasPrefix(imported, ours) || cenkalti
				assert.True(t, ok, "%s imports %s", file, imported)
			}
		}
	})

	// What the sources of the root declare, and each of their nodes.
	interfaces, globals := map[string]bool{"error": true, "any": true}, map[string]bool{}
	inspect := func(visit func(file string, n ast.Node)) {
		for file, parsed := range files {
			if ofRoot[path.Dir(file)] {
				ast.Inspect(parsed, func(n ast.Node) bool { visit(file, n); return true })
			}
		}
	}
	inspect(func(_ string, n ast.Node) {
		switch n := n.(type) {
		case *ast.TypeSpec:
			_, interfaces[n.Name.Name] = n.Type.(*ast.InterfaceType)
		case *ast.File:
			for _, decl := range n.Decls {
				if decl, ok := decl.(*ast.GenDecl); ok && decl.Tok == token.VAR {
					for _, spec := range decl.Specs {
						for _, name := range spec.(*ast.ValueSpec).Names {
							globals[name.Name] = true
						}
					}
				}
			}
		}
	})
	assert.NotEmpty(t, globals, "at least the error variables are found")

	t.Run("no goroutine, no recover, no init", func(t *testing.T) {
		inspect(func(file string, n ast.Node) {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Error(file, "has a go statement")
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "recover" {
					t.Error(file, "calls recover")
				}
			case *ast.FuncDecl:
				if n.Name.Name == "init" && n.Recv == nil {
					t.Error(file, "has a func init")
				}
			}
		})
	})

	// A user who wraps a value would lose what is found by its type. An error
	// is different: what wraps one has an Unwrap or an As.
	t.Run("nothing is found by asserting types, but the marks of errors", func(t *testing.T) {
		asserted := map[string]bool{}
		inspect(func(file string, n ast.Node) {
			var types []ast.Expr
			switch n := n.(type) {
			case *ast.TypeAssertExpr:
				types = []ast.Expr{n.Type}
			case *ast.TypeSwitchStmt:
				for _, clause := range n.Body.List {
					types = append(types, clause.(*ast.CaseClause).List...)
				}
			}
			if path.Dir(file) != "." {
				return
			}
			for _, named := range types {
				switch of := named.(type) {
				case *ast.Ident:
					if interfaces[of.Name] {
						asserted[file+": "+of.Name] = true
					}
				case *ast.InterfaceType, *ast.SelectorExpr, *ast.FuncType:
					asserted[fmt.Sprintf("%s: %T", file, of)] = true
				}
			}
		})
		assert.ElementsMatch(t, []string{"marks.go: retryAfterer", "marks.go: asker", "marks.go: wrapper", "marks.go: multiWrapper"},
			slices.Collect(maps.Keys(asserted)))
	})

	t.Run("no package variable is assigned to", func(t *testing.T) {
		inspect(func(file string, n ast.Node) {
			var changed []ast.Expr
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					changed = n.Lhs
				}
			case *ast.IncDecStmt:
				changed = []ast.Expr{n.X}
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					changed = []ast.Expr{n.X}
				}
			}
			for _, e := range changed {
				if name := variable(e); globals[name] {
					t.Errorf("%s: %s is assigned to, or its address is taken", file, name)
				}
			}
		})
	})
}

// Every promise of a package has its tests in that package. Here: a package needs
// the root and internal/ alone, so that who imports it gets no other.
func TestPrinciple11EveryPackageNeedsTheRootAlone(t *testing.T) {
	const module = "github.com/goretry/retry"
	retrynet := module + "/retrynet"
	allowed := map[string][]string{"retryhttp": {retrynet}, "retrysql": {retrynet}}
	for file, parsed := range sources(t, ".") {
		pkg, _, below := strings.Cut(file, "/")
		if !below || slices.Contains([]string{"internal", "examples"}, pkg) {
			continue // the root itself, and programs
		}
		for _, imported := range imports(parsed) {
			ours := strings.HasPrefix(imported, module+"/")
			itself := strings.HasPrefix(imported+"/", module+"/"+pkg+"/")
			internal := strings.HasPrefix(imported, module+"/internal/")
			assert.True(t, !ours || itself || internal || slices.Contains(allowed[pkg], imported), "%s imports %s", file, imported)
		}
	}
}

// A claim is a row of testdata/claims.txt: words of a page, and the test that fails
// if they are not so.
type claim struct{ page, words, dir, test, row string }

func text(t *testing.T, file string) string {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

func claims(t *testing.T) (claims []claim) {
	form := regexp.MustCompile(`^(\S+) \| (.+) \| (\S+)\.((?:Test|Fuzz|Example)\w*)(?:/(.+))?\n$`)
	for line := range strings.Lines(text(t, "testdata/claims.txt")) {
		if line != "\n" && line[0] != '#' {
			row := form.FindStringSubmatch(line)
			require.NotNil(t, row, line)
			if row[3] == "retry" {
				row[3] = "."
			}
			claims = append(claims, claim{row[1], row[2], row[3], row[4], row[5]})
		}
	}
	return claims
}

// said returns what a page says on one line: a file, or the comments of a package.
func said(t *testing.T, page string) string {
	if strings.HasSuffix(page, ".md") {
		return strings.Join(strings.Fields(text(t, page)), " ")
	}
	files, err := filepath.Glob(filepath.Join(page, "*.go"))
	require.NoError(t, err)
	var said strings.Builder
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			require.NoError(t, err)
			for _, group := range parsed.Comments {
				said.WriteString(group.Text() + " ")
			}
		}
	}
	return strings.Join(strings.Fields(said.String()), " ")
}

func TestEachClaimStandsOnItsPageAndHasATest(t *testing.T) {
	pages, tests := map[string]string{}, map[string]string{}
	claims := claims(t)
	assert.GreaterOrEqual(t, len(claims), 120)
	for _, c := range claims {
		if pages[c.page] == "" {
			pages[c.page] = said(t, c.page)
		}
		assert.True(t, strings.Contains(pages[c.page], c.words), "%s does not say %q", c.page, c.words)
		if tests[c.dir] == "" {
			files, err := filepath.Glob(filepath.Join(c.dir, "*_test.go"))
			require.NoError(t, err)
			for _, file := range files {
				tests[c.dir] += text(t, file)
			}
		}
		assert.True(t, strings.Contains(tests[c.dir], "\nfunc "+c.test+"("), "%s has no %s", c.dir, c.test)
		assert.True(t, strings.Contains(tests[c.dir], c.row), "%s has no row %q", c.dir, c.row)
	}
}

// A page that says never, always, at most or the like has a claim for it, so that
// there is a test.
func TestPagesPromiseOnlyWhatIsTested(t *testing.T) {
	pages := packagePages(t)
	files, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	for _, file := range append(files, "README.md") {
		prose := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(text(t, file), "")
		pages[file] = strings.Join(strings.Fields(prose), " ")
	}
	for _, c := range claims(t) {
		pages[c.page] = strings.ReplaceAll(pages[c.page], c.words, "...")
	}
	promise := regexp.MustCompile(`(?i).{0,60}\b(never|always|at most|exactly|pure|allocat\w+)\b.{0,40}`)
	for page, said := range pages {
		assert.Empty(t, promise.FindAllString(said, -1), "%s: testdata/claims.txt has no row for it", page)
	}
}

// packagePages returns what the packages that people import say before their first
// symbol, by directory.
func packagePages(t *testing.T) map[string]string {
	pages := map[string]string{}
	require.NoError(t, filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (entry.Name()[0] == '.' || notImported[entry.Name()]):
			return fs.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
			require.NoError(t, err)
			pages[path.Dir(name)] += strings.Join(strings.Fields(file.Doc.Text()), " ")
		}
		return nil
	}))
	return pages
}

// A package page says what the package is for, and has at most 400 words.
func TestPackagePagesAreShort(t *testing.T) {
	pages := packagePages(t)
	assert.Greater(t, len(pages), 25)
	for dir, page := range pages {
		assert.Regexp(t, "^(Package|Retry) ", page, dir)
		assert.LessOrEqual(t, len(strings.Fields(page)), 400, "words of the page of %s", dir)
	}
}

// notImported are directories of programs, tests and what only we import.
var notImported = map[string]bool{
	"internal": true, "examples": true, "integration": true, "benchmarks": true, "testdata": true, "servertest": true,
}

// user is a package that calls the loops as a program does.
const user = `package user

import (
	"context"

	"github.com/goretry/retry"
)

var policy = retry.Default()

func Do(ctx context.Context, fn func(context.Context) error) error {
	return retry.Do(ctx, policy, fn)
}

func DoValue(ctx context.Context, fn func(context.Context) (int, error)) (int, error) {
	return retry.DoValue(ctx, policy, fn)
}

func Once(ctx context.Context, a retry.Attempt, fn func(context.Context) error) (retry.Decision, error) {
	return retry.Once(ctx, policy, a, fn)
}
`

// A goroutine starts with 2 KiB of stack and keeps it only while the frames
// from its entry to the sleep are small. The root package and user are compiled
// for amd64.
func TestInlining(t *testing.T) {
	command, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command: ", err)
	}
	// An overlay adds user to this module without writing a file into it.
	module, err := os.Getwd()
	require.NoError(t, err)
	source, overlay := filepath.Join(t.TempDir(), "user.go"), filepath.Join(t.TempDir(), "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(module, "internal", "user", "user.go"): source}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(source, []byte(user), 0o600))
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))
	build := exec.CommandContext(t.Context(), command, "build", "-overlay", overlay, "-gcflags=-m -S", ".", "./internal/user")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "GOFLAGS=", "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	for _, want := range []string{
		`once\.go:\d+:\d+: can inline Once`,
		`user\.go:\d+:\d+: inlining call to retry\.DoValue\[go\.shape\.int\]`,
		`user\.go:\d+:\d+: inlining call to retry\.Once`,
	} {
		assert.True(t, regexp.MustCompile(`(?m)`+want+`$`).Match(out), want)
	}
	frame := regexp.MustCompile(`(?m)^github\.com/goretry/retry\.Do STEXT .*\blocals=0x([0-9a-f]+)`).FindSubmatch(out)
	require.NotNil(t, frame, "there is no Do in the assembly")
	bytes, err := strconv.ParseUint(string(frame[1]), 16, 32)
	require.NoError(t, err)
	assert.LessOrEqual(t, bytes, uint64(128), "the frame of Do")
}

// The symbols and the texts of a build with the tag retrytwice are in no other.
func TestANormalBuildHasNothingOfRetrytwice(t *testing.T) {
	found := func(tags string) (parts []string) {
		binary := filepath.Join(t.TempDir(), "program")
		out, err := exec.CommandContext(t.Context(), "go", "build", "-tags="+tags, "-o="+binary, "./examples/quickstart").CombinedOutput()
		require.NoError(t, err, "%s", out)
		symbols, err := exec.CommandContext(t.Context(), "go", "tool", "nm", binary).Output()
		require.NoError(t, err)
		contents, err := os.ReadFile(binary)
		require.NoError(t, err)
		for _, part := range []string{"internal/twice", "Policy.lossy", "RETRY_TWICE", "the answer was lost"} {
			if strings.Contains(string(symbols), part) || strings.Contains(string(contents), part) {
				parts = append(parts, part)
			}
		}
		return parts
	}
	assert.Len(t, found("retrytwice"), 4)
	assert.Empty(t, found(""))
}

// A goroutine starts with 2 KiB of stack, and needs twice as much if its frames
// do not fit. The stacks are measured in a separate process, in which all
// goroutines start with the same stack; otherwise the runtime would adapt the
// initial size to the goroutines that it has seen. None is interrupted in the
// middle of a function, as on a busy machine, because that needs stack too.
const bornAlike = "adaptivestackstart=0,asyncpreemptoff=1"

func TestACallThatWaitsKeepsItsSmallStack(t *testing.T) {
	if os.Getenv("GODEBUG") == bornAlike {
		for subject, start := range waiting {
			synctest.Test(t, func(t *testing.T) { t.Logf("%s holds %d bytes", subject, stackOf(start)) })
		}
		return
	}
	if testing.CoverMode() != "" {
		t.Skip("the coverage counters need space in every stack frame")
	}
	executable, err := os.Executable()
	require.NoError(t, err)
	process := exec.CommandContext(t.Context(), executable, "-test.run=^TestACallThatWaitsKeepsItsSmallStack$", "-test.v")
	process.Env = append(os.Environ(), "GODEBUG="+bornAlike, "GOMAXPROCS=1")
	out, err := process.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Skip("this system cannot run the test binary again: ", err)
	}
	require.NoError(t, err, "%s", out)
	held := make(map[string]float64)
	for _, match := range regexp.MustCompile(`(\w+) holds (\d+) bytes`).FindAllStringSubmatch(string(out), -1) {
		held[match[1]], err = strconv.ParseFloat(match[2], 64)
		require.NoError(t, err)
	}
	require.Len(t, held, len(waiting), "%s", out)
	for subject := range waiting {
		t.Run(subject, func(t *testing.T) {
			most := 1.5
			if subject == "DoValueLiteralInFunction" && !strings.HasPrefix(runtime.Version(), "go1.26") {
				most = 2 // the frame of a select is 16 bytes larger than in Go 1.26, which is 8 too many here
			}
			assert.Less(t, held[subject], most*held["bare"], "bytes of stack, where the bare loop has %v", held["bare"])
		})
	}
}

// stackOf returns the bytes of stack of a call that waits.
func stackOf(start func(context.Context, func(context.Context) error, func())) uint64 {
	const calls = 5000
	inUse := func() uint64 {
		runtime.GC()
		runtime.GC() // frees the stack space that the first collection has found to be unused
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.StackInuse
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before := inUse()
	for range calls {
		start(ctx, failWith(errDial), func() {})
	}
	synctest.Wait()
	return (inUse() - before) / calls
}

// waiting starts a call that sleeps before its second attempt. Each subject is
// called in its own goroutine, directly or, where the name says so, through one
// function, so that the goroutine's first stack holds little more than the call.
var waiting = map[string]func(ctx context.Context, fn func(context.Context) error, returned func()){
	"bare": func(ctx context.Context, fn func(context.Context) error, returned func()) {
		go func() {
			defer returned()
			_ = bare(ctx, 5, func(int) time.Duration { return time.Hour }, fn)
		}()
	},
	"Do": func(ctx context.Context, fn func(context.Context) error, returned func()) {
		go func() {
			defer returned()
			_ = retry.Do(ctx, hourly, fn)
		}()
	},
	"DoLiteral": func(ctx context.Context, fn func(context.Context) error, returned func()) {
		go func() {
			defer returned()
			_ = retry.Do(ctx, retry.Policy{
				MaxAttempts: 5, Backoff: retry.Exponential{Base: time.Hour}, MaxDelay: 2 * time.Hour, Jitter: retry.Proportional(0.2),
			}, fn)
		}()
	},
	"DoValue": func(ctx context.Context, fn func(context.Context) error, returned func()) {
		go func() {
			defer returned()
			_, _ = retry.DoValue(ctx, hourly, func(ctx context.Context) (int, error) { return 0, fn(ctx) })
		}()
	},
	"DoValueLiteral": func(ctx context.Context, fn func(context.Context) error, returned func()) {
		go func() {
			defer returned()
			_, _ = retry.DoValue(ctx, retry.Policy{
				MaxAttempts: 5, Backoff: retry.Exponential{Base: time.Hour}, MaxDelay: 2 * time.Hour, Jitter: retry.Proportional(0.2),
			}, func(ctx context.Context) (int, error) { return 0, fn(ctx) })
		}()
	},
	"DoValueLiteralInFunction": func(ctx context.Context, fn func(context.Context) error, returned func()) {
		go func() {
			_, _ = doValueLiteral(ctx, fn)
			returned()
		}()
	},
}

var hourly = retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Base: time.Hour}, MaxDelay: 2 * time.Hour, Jitter: retry.Proportional(0.2)}

//go:noinline
func doValueLiteral(ctx context.Context, fn func(context.Context) error) (int, error) {
	return retry.DoValue(ctx, retry.Policy{
		MaxAttempts: 5, Backoff: retry.Exponential{Base: time.Hour}, MaxDelay: 2 * time.Hour, Jitter: retry.Proportional(0.2),
	}, func(ctx context.Context) (int, error) { return 0, fn(ctx) })
}

// bare is the loop that a careful engineer would write by hand: it checks its
// context, calls fn, and waits on a timer and its context.
func bare(ctx context.Context, attempts int, delay func(int) time.Duration, fn func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := fn(ctx)
		if err == nil || attempt == attempts {
			return err
		}
		if d := delay(attempt); d > 0 {
			t := time.NewTimer(d)
			select {
			case <-ctx.Done():
				t.Stop()
				return ctx.Err()
			case <-t.C:
			}
		}
	}
}

// clocks are the functions, by their package, that read the clock or wait.
var clocks = map[string][]string{
	"time":                                   {"Now", "Since", "Until", "Sleep", "NewTimer", "After", "AfterFunc", "Tick", "NewTicker"},
	"context":                                {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause", "AfterFunc"},
	"github.com/goretry/retry/internal/wait": {"For"},
}

// waits are the functions of clocks that wait.
var waits = map[string]bool{
	"time.Sleep": true, "time.NewTimer": true, "time.After": true, "time.AfterFunc": true, "time.Tick": true, "time.NewTicker": true,
	"wait.For": true,
}

// clockUses lists the uses of the clock in a file, as "function: time.Now". In a
// file of the root package it also lists select statements, as "function: select".
func clockUses(file *ast.File, root bool) (uses []string) {
	names := make(map[string]string) // of the imports in this file
	for _, spec := range file.Imports {
		imported := strings.Trim(spec.Path.Value, `"`)
		names[path.Base(imported)] = imported
		if spec.Name != nil {
			names[spec.Name.Name] = imported
		}
	}
	for _, decl := range file.Decls {
		function := "package"
		if f, ok := decl.(*ast.FuncDecl); ok {
			function = f.Name.Name
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectStmt:
				if root {
					uses = append(uses, function+": select")
				}
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && slices.Contains(clocks[names[pkg.Name]], n.Sel.Name) {
					uses = append(uses, fmt.Sprintf("%s: %s.%s", function, path.Base(names[pkg.Name]), n.Sel.Name))
				}
			}
			return true
		})
	}
	return uses
}

// sources returns the files of modules by path, without tests.
func sources(t *testing.T, modules ...string) map[string]*ast.File {
	files := map[string]*ast.File{}
	for _, module := range modules {
		require.NoError(t, filepath.WalkDir(module, func(name string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() {
				_, noModule := os.Stat(filepath.Join(name, "go.mod"))
				dir := entry.Name()
				if name != module && (noModule == nil || dir == "testdata" || strings.HasPrefix(dir, ".") || strings.HasPrefix(dir, "_")) {
					return fs.SkipDir
				}
				return nil
			}
			if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
				files[filepath.ToSlash(name)], err = parser.ParseFile(token.NewFileSet(), name, nil, 0)
			}
			return err
		}))
	}
	return files
}

// imports returns the paths that a file imports.
func imports(file *ast.File) (paths []string) {
	for _, spec := range file.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}

// variable returns the name of the variable that an expression belongs to.
func variable(e ast.Expr) string {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return variable(e.X)
	case *ast.IndexExpr:
		return variable(e.X)
	case *ast.StarExpr:
		return variable(e.X)
	default:
		return ""
	}
}
