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

func TestCheck(t *testing.T) {
	// The platform makes no difference.
	t.Setenv("GOOS", "windows")
	t.Setenv("GOARCH", "386")
	t.Setenv("CGO_ENABLED", "1")
	dir := module(t, source)
	api := func(name string) string { return filepath.Join(dir, "api", name) }
	checked := func(update bool) string {
		report, err := check(dir, update)
		require.NoError(t, err)
		return report
	}
	assert.Empty(t, checked(true))
	files, err := filepath.Glob(api("*"))
	require.NoError(t, err)
	assert.Equal(t, []string{api("pay_card.txt"), api("shop.txt")}, files)
	text, err := os.ReadFile(files[0])
	require.NoError(t, err)
	assert.Equal(t, "pkg example.com/shop/pay/card, func Pay(example.com/shop.Order)\n", string(text))
	text, err = os.ReadFile(files[1])
	require.NoError(t, err)
	assert.Equal(t, want, string(text))
	assert.Empty(t, checked(false))

	const find = "func Find[K comparable, V any](map[K]V, func(V) bool) (V, error)"
	for _, row := range []struct {
		name    string
		changes [][2]string
		want    []string
	}{
		{"what no program depends on", [][2]string{
			{"amount int", "cents int"}, {"func(value V) (ok bool)", "func(V) bool"}, {"rate = 19, 7", "rate = 19, 8"},
		}, nil},
		{"types, constants and variables", [][2]string{
			{"secret int", "secret int\n\tNote string"}, {"Amount int", "Amount int64"}, {`json:"id"`, `json:"key"`},
			{`"open"`, `"opened"`}, {"var Judges []Judge", "var Judges map[string]Judge"},
		}, []string{
			`-const Open State = "open"`, "-type Order struct, Amount int", `-type Order struct, ID string json:"id"`, "-var Judges []Judge",
			`+const Open State = "opened"`, "+type Order struct, Amount int64", `+type Order struct, ID string json:"key"`, "+type Order struct, Note string",
			"+var Judges map[string]Judge",
		}},
		{"functions and methods", [][2]string{
			{"Pay(amount int) error", "Pay(amount int64) error"}, {"found V, err error", "found V"}, {"(o Order) Paid", "(o *Order) Paid"},
			{"func (o *Order) pay() {}", "func (o *Order) Return() {}"}, {"seal()", "seal()\n\tPut()"},
		}, []string{
			"-" + find, "-method (*Order) Pay(int) error", "-method (Order) Paid() bool",
			"+func Find[K comparable, V any](map[K]V, func(V) bool) V", "+method (*Order) Paid() bool", "+method (*Order) Pay(int64) error",
			"+method (*Order) Return()", "+method (Store) Put()",
		}},
		{"a constraint, a removed method, an interface that others can implement, and an alias", [][2]string{
			{"K comparable", "K ~string"}, {"func (o Order) Paid() bool { return o.secret > 0 }", ""}, {"\tseal()\n", ""}, {"type State string", "type State = string"},
		}, []string{
			"-" + find, "-method (Order) Paid() bool", "-method (Store) seal()", "-type State string",
			"+func Find[K ~string, V any](map[K]V, func(V) bool) (V, error)", "+type State = string",
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			changed := source
			for _, c := range row.changes {
				require.Contains(t, changed, c[0])
				changed = strings.Replace(changed, c[0], c[1], 1)
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "shop.go"), []byte(changed), 0o644))
			want := ""
			if row.want != nil {
				want = "the exported API of shop has changed: run go run ./internal/api -update, and commit api/"
			}
			for _, line := range row.want {
				want += "\n" + line[:1] + "pkg example.com/shop, " + line[1:]
			}
			assert.Equal(t, want, checked(false))
		})
	}

	require.NoError(t, os.WriteFile(filepath.Join(dir, "shop.go"), []byte(source), 0o644))
	require.NoError(t, os.Rename(api("pay_card.txt"), api("pay_cash.txt")))
	assert.Equal(t, `the exported API of pay_card, pay_cash has changed: run go run ./internal/api -update, and commit api/
+pkg example.com/shop/pay/card, func Pay(example.com/shop.Order)
-pkg example.com/shop/pay/card, func Pay(example.com/shop.Order)`, checked(false), "a package without a file, and a file without a package")

	assert.Empty(t, checked(true))
	assert.NoFileExists(t, api("pay_cash.txt"), "its package is gone")
	assert.Empty(t, checked(false))
}

func TestDoesNotCompile(t *testing.T) {
	_, err := check(module(t, "package shop\n\nvar X int = \"\"\n"), false)
	assert.ErrorContains(t, err, "go list: exit status 1")
}
