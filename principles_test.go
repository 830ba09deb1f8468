package retry_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	randv2 "math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// Each test here pins what holds everywhere in the package; the others say how.

func TestPrinciple01AZeroFieldIsOff(t *testing.T) {
	boom := errors.New("boom")
	assert.Equal(t, 1, retry.Policy{}.EffectiveMax())
	assert.Equal(t, retry.Decision{Reason: retry.ReasonExhausted}, retry.Policy{}.Next(retry.Attempt{Number: 1, Err: boom}))
	runs := 0
	assert.ErrorIs(t, retry.Do(t.Context(), retry.Policy{}, func(context.Context) error { runs++; return boom }), boom)
	assert.Equal(t, 1, runs)

	const longest = time.Duration(math.MaxInt64)
	next := func(p retry.Policy, a retry.Attempt) retry.Decision {
		p.MaxAttempts, a.Number, a.Seed = 3, 1, 42
		return p.Next(a)
	}
	retries := func(d time.Duration) retry.Decision { return retry.Decision{Delay: d, Reason: retry.ReasonRetry} }
	off := map[string]func(t *testing.T){
		"MaxAttempts": func(t *testing.T) { assert.Equal(t, 4, retry.Policy{MaxRetries: 3}.EffectiveMax()) },
		"MaxRetries":  func(t *testing.T) { assert.Equal(t, 3, retry.Policy{MaxAttempts: 3}.EffectiveMax()) },
		"AttemptCap": func(t *testing.T) {
			assert.Equal(t, math.MaxInt, retry.Policy{MaxAttempts: math.MaxInt}.EffectiveMax())
		},
		"NonRetryable": func(t *testing.T) { assert.Equal(t, retries(0), next(retry.Policy{}, retry.Attempt{Err: boom})) },
		"Backoff":      func(t *testing.T) { assert.Equal(t, retries(0), next(retry.Policy{MaxDelay: 1}, retry.Attempt{})) },
		"MaxDelay": func(t *testing.T) {
			assert.Equal(t, retries(longest), next(retry.Policy{Backoff: retry.Fixed(longest)}, retry.Attempt{}))
		},
		"Jitter": func(t *testing.T) {
			assert.Equal(t, retries(time.Second), next(retry.Policy{Backoff: retry.Fixed(time.Second)}, retry.Attempt{}))
		},
		"MaxRetryAfter": func(t *testing.T) { // for safety not without an end
			assert.Equal(t, retries(time.Minute), next(retry.Policy{}, retry.Attempt{Err: retry.After(time.Minute, boom)}))
		},
		"Source": func(t *testing.T) {
			p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(longest), Jitter: retry.FullJitter}
			assert.NotEqual(t, p.Next(retry.Attempt{Number: 1}), p.Next(retry.Attempt{Number: 1}), "math/rand/v2 draws")
		},
		"MaxElapsed": func(t *testing.T) { assert.Equal(t, retries(0), next(retry.Policy{}, retry.Attempt{Elapsed: longest})) },
		"AttemptTimeout": func(t *testing.T) {
			assert.NoError(t, retry.Do(context.Background(), retry.Policy{}, func(ctx context.Context) error {
				_, bounded := ctx.Deadline()
				assert.False(t, bounded)
				return nil
			}))
		},
		"RetryIf": func(t *testing.T) { assert.Equal(t, retries(0), next(retry.Policy{}, retry.Attempt{Err: boom})) },
		"Select":  func(t *testing.T) { assert.Equal(t, retries(0), next(retry.Policy{}, retry.Attempt{Err: boom})) },
		"Budget":  func(t *testing.T) { assert.True(t, retry.Policy{}.Budget.Take()) },
		"OnEvent": func(t *testing.T) {
			assert.NoError(t, retry.Do(t.Context(), retry.Policy{}, func(context.Context) error { return nil }))
		},
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[retry.Policy]()) {
		require.Contains(t, off, field.Name, "a field whose zero is not tested")
		t.Run(field.Name, off[field.Name])
	}
}

func TestPrinciple02OneCount(t *testing.T) {
	boom := errors.New("boom")
	for _, retries := range []int{1, 2, 3, 24, 1_000_000, math.MaxInt - 1, math.MaxInt, retry.Unlimited} {
		byRetries := retry.Policy{MaxRetries: retries, Backoff: retry.Exponential{Base: time.Second}}
		byAttempts := retry.Policy{MaxAttempts: retry.Retries(retries), Backoff: retry.Exponential{Base: time.Second}}
		assert.Equal(t, byAttempts.EffectiveMax(), byRetries.EffectiveMax(), "%d retries", retries)
		for _, attempts := range boundaryInts {
			assert.Equal(t, byAttempts.Eligible(attempts), byRetries.Eligible(attempts), "%d retries, %d attempts", retries, attempts)
			a := retry.Attempt{Number: attempts, Err: boom}
			assert.Equal(t, byAttempts.Next(a), byRetries.Next(a), "%d retries, %d attempts", retries, attempts)
		}
	}

	// Executions are what a call counts too.
	runs := 0
	err := retry.Do(t.Context(), retry.Policy{MaxRetries: 3}, func(context.Context) error { runs++; return boom })
	var e *retry.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, []int{4, 4}, []int{runs, e.Attempts})
}

func TestPrinciple03PolicyIsAnImmutableValue(t *testing.T) {
	boom := errors.New("boom")
	base := retry.Policy{
		MaxAttempts: 5, AttemptCap: 9, Backoff: retry.Schedule{time.Second, time.Minute}, MaxDelay: time.Minute, Jitter: retry.Proportional(.2),
		MaxElapsed: time.Hour, Budget: retry.NewBudget(3, .1),
	}
	before := base
	before.Backoff = retry.Schedule{time.Second, time.Minute}

	t.Run("nothing that is asked changes it", func(t *testing.T) {
		for attempt := range 12 {
			base.Next(retry.Attempt{Number: attempt, Err: retry.After(time.Second, boom)})
			base.Eligible(attempt)
			base.ForJob(attempt)
		}
		_ = base.Validate()
		_ = base.Lint()
		_ = base.String()
		base.EffectiveMax()
		assert.Equal(t, before, base)
	})

	t.Run("a copy is another policy", func(t *testing.T) {
		derived := base
		derived.MaxAttempts, derived.Backoff = 2, nil
		assert.Equal(t, 2, derived.EffectiveMax())
		assert.Equal(t, before, base)
	})

	t.Run("a method that is asked takes a value", func(t *testing.T) {
		value, pointer := reflect.TypeFor[retry.Policy](), reflect.TypeFor[*retry.Policy]()
		for i := range pointer.NumMethod() {
			method := pointer.Method(i)
			if strings.HasPrefix(method.Name, "Unmarshal") {
				continue
			}
			_, ok := value.MethodByName(method.Name)
			assert.True(t, ok, "%s takes a pointer", method.Name)
		}
	})

	t.Run("any number of goroutines, and equal answers", func(t *testing.T) {
		answers := make([][]retry.Decision, 8)
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() {
				for attempt := range 200 {
					answers[i] = append(answers[i], base.Next(retry.Attempt{Number: attempt, Err: boom, Seed: uint64(attempt) + 1}))
				}
			})
		}
		wg.Wait()
		for _, got := range answers {
			assert.Equal(t, answers[0], got)
		}
	})
}

func TestPrinciple05TheCapAlwaysHoldsAndJitterAlwaysLives(t *testing.T) {
	curves := []retry.Backoff{
		retry.Fixed(7 * time.Second), retry.Fixed(math.MaxInt64), retry.Linear(6 * time.Second), retry.Fibonacci(time.Hour),
		retry.Exponential{Base: time.Minute}, retry.Schedule{time.Hour}, retry.BackoffFunc(func(int) time.Duration { return math.MaxInt64 }),
	}
	for name, jitter := range cappedJitters {
		for _, curve := range curves {
			p := retry.Policy{MaxAttempts: -1, Backoff: curve, MaxDelay: 5 * time.Second, Jitter: jitter}
			distinct, atCap := map[time.Duration]bool{}, 0
			for seed := range uint64(1000) {
				d := p.Next(retry.Attempt{Number: 1, Seed: seed + 1}).Delay
				require.LessOrEqual(t, d, p.MaxDelay, "%s on %v", name, curve)
				distinct[d] = true
				if d == p.MaxDelay {
					atCap++
				}
			}
			assert.GreaterOrEqual(t, len(distinct), 990, "%s on %v", name, curve)
			assert.LessOrEqual(t, atCap, 1, "%s on %v: a herd at the cap", name, curve)
		}
	}
}

func TestPrinciple06TotalFunctions(t *testing.T) {
	const longest, most = time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
	boom := errors.New("boom")
	backoffs := []retry.Backoff{nil, retry.BackoffFunc(nil), negative{}, retry.Schedule{}, retry.Schedule{most, longest, 0}}
	for _, d := range []time.Duration{most, -1, 0, 1, longest} {
		backoffs = append(backoffs, retry.Fixed(d), retry.Linear(d), retry.Fibonacci(d))
		for _, factor := range []float64{0, .5, 1, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)} {
			backoffs = append(backoffs, retry.Exponential{Base: d, Factor: factor})
		}
	}
	jitters := []retry.Jitter{
		nil, retry.FullJitter, retry.EqualJitter, retry.Proportional(1), retry.Proportional(math.NaN()), retry.Proportional(math.Inf(1)),
		fixedWindow{longest, most}, fixedWindow{most, longest}, fixedWindow{longest, longest}, fixedWindow{most, most},
	}
	limits := []int{math.MinInt, -1, 0, 3, math.MaxInt}
	for _, backoff := range backoffs {
		for _, jitter := range jitters {
			for _, limit := range limits {
				for _, maxDelay := range []time.Duration{most, 0, 1, longest} {
					p := retry.Policy{MaxAttempts: limit, Backoff: backoff, Jitter: jitter, MaxDelay: maxDelay, MaxRetryAfter: max(0, maxDelay)}
					fatal := func(format string, args ...any) {
						t.Helper()
						t.Fatalf("%T %v, %T %v, %d, %d: %s", backoff, backoff, jitter, jitter, limit, maxDelay, fmt.Sprintf(format, args...))
					}
					sound := p.Validate() == nil
					_, _ = p.Lint(), p.String()
					for _, number := range []int{math.MinInt, 1, 64, math.MaxInt} {
						for _, hint := range []time.Duration{most, 1, longest} {
							next := p.Next(retry.Attempt{Number: number, Err: retry.After(hint, boom), Elapsed: hint, Seed: math.MaxUint64})
							if next.Delay < 0 || next.Reason == 0 || sound == (next.Reason == retry.ReasonInvalid) || next.Retry() && !p.Eligible(number) {
								fatal("%v after %d with a hint of %d", next, number, hint)
							}
						}
					}
					_, trustedBackoff := backoff.(negative)
					_, trustedJitter := jitter.(fixedWindow)
					if sound && p.EffectiveMax() == retry.Unlimited && !trustedBackoff && !trustedJitter {
						if _, greatest := windowOf(p, retry.Attempt{Number: math.MaxInt}); greatest == 0 {
							fatal("a hot loop")
						}
					}
				}
			}
		}
	}
}

func TestPrinciple07AScheduleCanBeComputedAgain(t *testing.T) {
	t.Run("equal seed, equal delays", func(t *testing.T) {
		for _, g := range goldenPolicies {
			p := g.policy
			p.MaxAttempts = 100
			seed, other := retry.SeedOf("job-1"), retry.SeedOf("job-2")
			same := 0
			for attempt := 1; attempt < 100; attempt++ {
				d := p.Next(retry.Attempt{Number: attempt, Seed: seed})
				assert.Equal(t, d, p.Next(retry.Attempt{Number: attempt, Seed: seed}))
				if d == p.Next(retry.Attempt{Number: attempt, Seed: other}) {
					same++
				}
			}
			if p.Jitter != nil {
				assert.LessOrEqual(t, same, 1, "%s: another job has other delays", g.name)
			}
		}
	})

	t.Run("a call whose Source draws the same waits the same", func(t *testing.T) {
		run := func() (waits []time.Duration, seeds map[uint64]bool) {
			seeds = map[uint64]bool{}
			synctest.Test(t, func(t *testing.T) {
				p := retry.Default()
				p.MaxAttempts, p.Source = 10, randv2.NewPCG(1, 2)
				p.OnEvent = func(_ context.Context, e retry.Event) {
					if e.Kind == retry.RetryScheduled {
						seeds[e.Seed] = true
						assert.Equal(t, e.Delay, retry.Default().Next(retry.Attempt{Number: e.Attempt, Seed: e.Seed}).Delay, "from the seed alone")
					}
				}
				last := time.Now()
				_ = retry.Do(t.Context(), p, func(context.Context) error {
					waits = append(waits, time.Since(last))
					last = time.Now()
					return errors.New("boom")
				})
			})
			return waits, seeds
		}
		first, seeds := run()
		again, _ := run()
		assert.Len(t, first, 10)
		assert.Equal(t, first, again)
		assert.Len(t, seeds, 1, "one seed a call")
	})
}

// clocks are the functions of the standard library that read the clock or wait
// for it.
var clocks = map[string][]string{
	"time":    {"Now", "Since", "Until", "Sleep", "NewTimer", "After", "AfterFunc", "Tick", "NewTicker"},
	"context": {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause", "AfterFunc"},
}

// waits are those of them that wait.
var waits = map[string]bool{
	"time.Sleep": true, "time.NewTimer": true, "time.After": true, "time.AfterFunc": true, "time.Tick": true, "time.NewTicker": true,
}

// Only retry.go knows time, and no package waits but by Do and Loop: each use
// of the clock in the root package, and each wait in those below it, is listed
// here.
func TestPrinciple04DecisionAndWaitingAreApart(t *testing.T) {
	allowed := map[string][]string{
		"retry.go": {
			"begin: time.Now", "retries: time.Since", "passesDeadline: time.Until", "execute: context.WithTimeout", "do: time.After",
			"watch: time.Now", "watch: time.Now", "watch: time.Now", "scheduled: time.Now", "stopped: time.Now",
		},
		// These bound one execution, the reading of one body, and the run of a
		// foreign method; nothing waits for the next attempt.
		"retryhttp/transport.go":   {"attempt: time.AfterFunc", "discard: time.AfterFunc"},
		"retrytest/conformance.go": {"check: time.NewTimer"},
	}
	used := make(map[string][]string)
	for file, parsed := range sources(t) {
		if strings.HasPrefix(file, "examples/") {
			continue // programs, no part of the library
		}
		root := path.Dir(file) == "."
		for _, use := range clockUses(parsed, root) {
			if _, call, _ := strings.Cut(use, ": "); root || waits[call] {
				used[file] = append(used[file], use)
			}
		}
	}
	for file := range used {
		assert.ElementsMatch(t, allowed[file], used[file], file)
	}
	assert.NotEmpty(t, used["retry.go"], "the walk has not found the loop")
}

// clockUses lists the uses of the clock in a file, as "function: time.Now",
// and the go statements, as "function: go", of the root package.
func clockUses(file *ast.File, root bool) (uses []string) {
	names := make(map[string]string) // of the imports in this file
	for _, spec := range file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		if clocks[path] == nil {
			continue
		}
		names[path] = path
		if spec.Name != nil {
			names[spec.Name.Name] = path
		}
	}
	for _, decl := range file.Decls {
		function := "package"
		if f, ok := decl.(*ast.FuncDecl); ok {
			function = f.Name.Name
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				if root {
					uses = append(uses, function+": go")
				}
			case *ast.SelectorExpr:
				pkg, ok := n.X.(*ast.Ident)
				if !ok {
					break
				}
				for _, clock := range clocks[names[pkg.Name]] {
					if n.Sel.Name == clock {
						uses = append(uses, fmt.Sprintf("%s: %s.%s", function, names[pkg.Name], clock))
					}
				}
			}
			return true
		})
	}
	return uses
}

// sources returns the files of this module, without tests, by their path.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, noModule := os.Stat(filepath.Join(path, "go.mod"))
			name := entry.Name()
			if path != "." && (noModule == nil || name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(path)] = file
		return nil
	}))
	return files
}

func TestPrinciple10StandardLibraryNoGoroutineNoRecoverNoGlobalState(t *testing.T) {
	const module = "github.com/goretry/retry"
	files := sources(t)

	t.Run("the standard library only", func(t *testing.T) {
		for file, parsed := range files {
			dir := path.Dir(file)
			for _, spec := range parsed.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				require.NoError(t, err)
				ours, internal := strings.HasPrefix(imported, module), strings.HasPrefix(imported, module+"/internal/")
				first, _, _ := strings.Cut(imported, "/")
				switch {
				case dir == "." || strings.HasPrefix(dir, "internal/"):
					assert.True(t, internal || !strings.Contains(first, "."), "%s imports %s", file, imported)
				case dir == "retrycenkalti":
					assert.True(t, ours || strings.HasPrefix(imported, "github.com/cenkalti/backoff/") || !strings.Contains(first, "."), "%s imports %s", file, imported)
				default:
					assert.True(t, ours || !strings.Contains(first, "."), "%s imports %s", file, imported)
				}
			}
		}
	})

	var root []*ast.File
	for file, parsed := range files {
		if dir := path.Dir(file); dir == "." || dir == "internal/saturate" {
			root = append(root, parsed)
		}
	}
	require.Greater(t, len(root), 8)

	t.Run("no goroutine, no recover, no init", func(t *testing.T) {
		for _, file := range root {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Error("a go statement")
				case *ast.CallExpr:
					if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "recover" {
						t.Error("a call of recover")
					}
				case *ast.FuncDecl:
					if n.Name.Name == "init" && n.Recv == nil {
						t.Error("a func init")
					}
				}
				return true
			})
		}
	})

	t.Run("no package variable is assigned to", func(t *testing.T) {
		globals := map[string]bool{}
		for _, file := range root {
			for _, decl := range file.Decls {
				if decl, ok := decl.(*ast.GenDecl); ok && decl.Tok == token.VAR {
					for _, spec := range decl.Specs {
						for _, name := range spec.(*ast.ValueSpec).Names {
							globals[name.Name] = true
						}
					}
				}
			}
		}
		assert.NotEmpty(t, globals, "there are errors, at least")
		changes := func(e ast.Expr) {
			if name := variable(e); globals[name] {
				t.Errorf("%s is assigned to, or its address is taken", name)
			}
		}
		for _, file := range root {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					if n.Tok != token.DEFINE {
						for _, e := range n.Lhs {
							changes(e)
						}
					}
				case *ast.IncDecStmt:
					changes(n.X)
				case *ast.UnaryExpr:
					if n.Op == token.AND {
						changes(n.X)
					}
				}
				return true
			})
		}
	})

	t.Run("a panic passes through", func(t *testing.T) {
		assert.PanicsWithValue(t, "boom", func() {
			_ = retry.Do(t.Context(), retry.Default(), func(context.Context) error { panic("boom") })
		})
	})
}

// variable returns the name of the variable that an expression is a part of.
func variable(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return variable(e.X)
	case *ast.IndexExpr:
		return variable(e.X)
	case *ast.ParenExpr:
		return variable(e.X)
	case *ast.StarExpr:
		return variable(e.X)
	default:
		return ""
	}
}
