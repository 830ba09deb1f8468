package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const source = `package shop

type Order struct {
	ID     string ` + "`json:\"id\"`" + `
	Amount int
	secret int
}

func (o Order) Paid() bool { return o.secret > 0 }

func (o *Order) Pay(amount int) error { return nil }

func (o *Order) pay() {}

const Tax, rate = 19, 7

type State string

const Open State = "open"

type Store interface {
	Get(id string) (order *Order, err error)
	seal()
}

type Judge func(order Order, more ...int) bool

var Judges []Judge

type kind int

func (k kind) Big() bool { return k > 1 }

var Kind kind

const Word = 32 << (^uint(0) >> 63)

func Find[K comparable, V any](in map[K]V, judge func(value V) (ok bool)) (found V, err error) { return }
`

const want = `pkg example.com/shop, const Open State = "open"
pkg example.com/shop, const Tax untyped int = 19
pkg example.com/shop, const Word untyped int = 64
pkg example.com/shop, func Find[K comparable, V any](map[K]V, func(V) bool) (V, error)
pkg example.com/shop, method (*Order) Pay(int) error
pkg example.com/shop, method (Judge) String() string
pkg example.com/shop, method (Order) Paid() bool
pkg example.com/shop, method (Store) Get(string) (*Order, error)
pkg example.com/shop, method (Store) seal()
pkg example.com/shop, type Judge func(Order, ...int) bool
pkg example.com/shop, type Order struct
pkg example.com/shop, type Order struct, Amount int
pkg example.com/shop, type Order struct, ID string json:"id"
pkg example.com/shop, type State string
pkg example.com/shop, type Store interface
pkg example.com/shop, var Judges []Judge
pkg example.com/shop, var Kind kind
`

// module writes a module with a package, one below it, a command, and one that is
// internal.
func module(t *testing.T, shop string) (dir string) {
	dir = t.TempDir()
	for name, text := range map[string]string{
		"go.mod":             "module example.com/shop\n\ngo 1.25\n",
		"shop.go":            shop,
		"judge.go":           "package shop\n\nfunc (j Judge) String() string { return \"\" }\n",
		"pay/card/card.go":   "package card\n\nimport \"example.com/shop\"\n\nfunc Pay(o shop.Order) {}\n",
		"shop_windows.go":    "package shop\n\nvar Windows int\n",
		"cgo.go":             "//go:build cgo\n\npackage shop\n\nvar C int\n",
		"cmd/main.go":        "package main\n\nfunc Exported() {}\n\nfunc main() {}\n",
		"internal/db/db.go":  "package db\n\nfunc Exported() {}\n",
		"tested/tag_test.go": "package tested\n\nfunc Exported() {}\n",
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	return dir
}

func TestUpdate(t *testing.T) {
	// The platform makes no difference.
	t.Setenv("GOOS", "windows")
	t.Setenv("GOARCH", "386")
	t.Setenv("CGO_ENABLED", "1")
	dir := module(t, source)
	report, err := check(dir, true)
	require.NoError(t, err)
	assert.Empty(t, report)
	files, err := filepath.Glob(filepath.Join(dir, "api", "*"))
	require.NoError(t, err)
	assert.Equal(t, []string{filepath.Join(dir, "api", "pay_card.txt"), filepath.Join(dir, "api", "shop.txt")}, files)
	text, err := os.ReadFile(files[0])
	require.NoError(t, err)
	assert.Equal(t, "pkg example.com/shop/pay/card, func Pay(example.com/shop.Order)\n", string(text))
	text, err = os.ReadFile(files[1])
	require.NoError(t, err)
	assert.Equal(t, want, string(text))

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "pay")))
	_, err = check(dir, true)
	require.NoError(t, err)
	assert.NoFileExists(t, files[0], "its package is gone")
	report, err = check(dir, false)
	require.NoError(t, err)
	assert.Empty(t, report)
}

func TestCheck(t *testing.T) {
	const pkg = "pkg example.com/shop, "
	for _, test := range []struct {
		name     string
		old, new string
		want     []string
	}{
		{"nothing", "", "", nil},
		{"a parameter's name", "amount int", "cents int", nil},
		{"a name in a function's type", "func(value V) (ok bool)", "func(V) bool", nil},
		{"what is not exported", "rate = 19, 7", "rate = 19, 8", nil},
		{"a signature", "Pay(amount int) error", "Pay(amount int64) error", []string{"-method (*Order) Pay(int) error", "+method (*Order) Pay(int64) error"}},
		{"a function's signature", "found V, err error", "found V", []string{
			"-func Find[K comparable, V any](map[K]V, func(V) bool) (V, error)", "+func Find[K comparable, V any](map[K]V, func(V) bool) V"}},
		{"a constraint", "K comparable", "K ~string", []string{
			"-func Find[K comparable, V any](map[K]V, func(V) bool) (V, error)", "+func Find[K ~string, V any](map[K]V, func(V) bool) (V, error)"}},
		{"a receiver", "(o Order) Paid", "(o *Order) Paid", []string{"-method (Order) Paid() bool", "+method (*Order) Paid() bool"}},
		{"a removed method", "func (o Order) Paid() bool { return o.secret > 0 }", "", []string{"-method (Order) Paid() bool"}},
		{"a new method", "func (o *Order) pay() {}", "func (o *Order) Return() {}", []string{"+method (*Order) Return()"}},
		{"a method of an interface", "seal()", "seal()\n\tPut()", []string{"+method (Store) Put()"}},
		{"an interface that others cannot implement", "\tseal()\n", "", []string{"-method (Store) seal()"}},
		{"a new field", "secret int", "secret int\n\tNote string", []string{"+type Order struct, Note string"}},
		{"a field's type", "Amount int", "Amount int64", []string{"-type Order struct, Amount int", "+type Order struct, Amount int64"}},
		{"a key in JSON", `json:"id"`, `json:"key"`, []string{`-type Order struct, ID string json:"id"`, `+type Order struct, ID string json:"key"`}},
		{"a constant", `"open"`, `"opened"`, []string{`-const Open State = "open"`, `+const Open State = "opened"`}},
		{"a type", "type State string", "type State = string", []string{"-type State string", "+type State = string"}},
		{"a variable", "var Judges []Judge", "var Judges map[string]Judge", []string{"-var Judges []Judge", "+var Judges map[string]Judge"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := module(t, source)
			_, err := check(dir, true)
			require.NoError(t, err)
			require.Contains(t, source, test.old)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "shop.go"), []byte(strings.Replace(source, test.old, test.new, 1)), 0o644))

			report, err := check(dir, false)
			require.NoError(t, err)
			want := ""
			if test.want != nil {
				want = "the exported API of shop has changed: run go run ./internal/api -update, and commit api/"
			}
			for _, line := range test.want {
				want += "\n" + line[:1] + pkg + line[1:]
			}
			assert.Equal(t, want, report)
		})
	}
}

// A package without a file, and a file without a package.
func TestCheckPackages(t *testing.T) {
	dir := module(t, source)
	_, err := check(dir, true)
	require.NoError(t, err)
	require.NoError(t, os.Rename(filepath.Join(dir, "api", "pay_card.txt"), filepath.Join(dir, "api", "pay_cash.txt")))
	report, err := check(dir, false)
	require.NoError(t, err)
	assert.Equal(t, `the exported API of pay_card, pay_cash has changed: run go run ./internal/api -update, and commit api/
+pkg example.com/shop/pay/card, func Pay(example.com/shop.Order)
-pkg example.com/shop/pay/card, func Pay(example.com/shop.Order)`, report)
}

func TestDoesNotCompile(t *testing.T) {
	_, err := check(module(t, "package shop\n\nvar X int = \"\"\n"), false)
	assert.ErrorContains(t, err, "go list: exit status 1")
}
