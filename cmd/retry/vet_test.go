package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain lets go vet run the test binary as its tool: go vet runs the program that os.Executable
// returns.
func TestMain(m *testing.M) {
	if calledByVet(os.Args[1:]) {
		serveVet()
	}
	os.Exit(m.Run())
}

// program writes a module whose main.go has a mistake.
func program(t *testing.T, main string) (dir string) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir = write(t, map[string]string{
		"go.mod":  "module program\n\ngo 1.26.0\n\nrequire github.com/goretry/retry v0.0.0\n\nreplace github.com/goretry/retry => " + root + "\n",
		"main.go": main,
	})
	t.Setenv("GOWORK", "off")
	t.Chdir(dir)
	return dir
}

const mistaken = `package main

import (
	"context"

	"github.com/goretry/retry"
)

func call(ctx context.Context, p retry.Policy, ping func(context.Context) error) error {
	return retry.Do(ctx, p, func(attempt context.Context) error { return ping(ctx) })
}

func main() {}
`

func TestVet(t *testing.T) {
	dir := program(t, mistaken)
	const found = `main.go:10:76: ping gets the context of all attempts, so AttemptTimeout does not end it: pass attempt, the context of this attempt`
	for _, test := range []struct {
		name, args     string
		stdout, stderr string // texts that the outputs must contain; an stdout of "" must be empty
		status         int
	}{
		{"all packages", "./...", "", found, 1},
		{"this package", "", "", found, 1},
		{"a check that is off", "-outerctx=false .", "", "1 package, 1 call of retry", 0},
		{"a check alone", "-outerctx .", "", found, 1},
		{"JSON", "-json .", `"check":"outerctx"`, "1 package, 1 call of retry", 1},
		{"GitHub", "-format github .", "::error file=main.go,line=10,col=76::ping gets", "1 package, 1 call of retry", 1},
		{"SARIF", "-format=sarif .", `"ruleId":"outerctx"`, "1 package, 1 call of retry", 1},
		{"no such format", "-format xml .", "", `-format is "xml": write text, github, json or sarif`, 2},
		{"a diff", "-fix -diff .", "ping(attempt) })", "", 1},
		{"a format with -fix", "-fix -format json .", "", `-format is "json", but -fix and -diff report nothing`, 2},
		{"no such package", "./nowhere", "", "nowhere", 1},
		{"no such flag", "-nowhere", "", "flag provided but not defined: -nowhere", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, status := tool("", append([]string{"vet"}, strings.Fields(test.args)...)...)
			assert.Equal(t, test.status, status, stderr)
			assert.Contains(t, stdout, test.stdout)
			assert.Contains(t, stderr, test.stderr)
			assert.Equal(t, test.stdout == "", stdout == "", stdout)
		})
	}

	succeed(t, "", "vet", "-fix", ".")
	fixed, err := os.ReadFile(filepath.Join(dir, "main.go"))
	require.NoError(t, err)
	assert.Equal(t, strings.Replace(mistaken, "ping(ctx)", "ping(attempt)", 1), string(fixed))
	_, stderr, status := tool("", "vet", ".")
	assert.Zero(t, status, stderr)
}

// Vet -fix writes to the file in this checkout. Go vet keeps fixed files in its cache, and with
// -trimpath two checkouts with the same content would share a fixed file.
func TestVetFixesThisCheckout(t *testing.T) {
	t.Setenv("GOFLAGS", "-trimpath -buildvcs=false")
	here, err := os.Getwd()
	require.NoError(t, err)
	first := program(t, mistaken)
	succeed(t, "", "vet", "-fix", ".")
	const edited = "package main // edited since\n\nfunc main() {}\n"
	require.NoError(t, os.WriteFile(filepath.Join(first, "main.go"), []byte(edited), 0o600))

	t.Chdir(here)
	second := program(t, mistaken)
	stdout, _, _ := tool("", "vet", "-fix", "-diff", ".")
	assert.Contains(t, stdout, "+++ "+filepath.Join(second, "main.go"))
	succeed(t, "", "vet", "-fix", ".")
	for dir, want := range map[string]string{first: edited, second: strings.Replace(mistaken, "ping(ctx)", "ping(attempt)", 1)} {
		is, err := os.ReadFile(filepath.Join(dir, "main.go"))
		require.NoError(t, err)
		assert.Equal(t, want, string(is))
	}
}

// Vet -fix writes only to files of the module in which it is called.
func TestVetFixesThisModule(t *testing.T) {
	const says = "-fix writes only to "
	other := write(t, map[string]string{"linked.go": strings.Replace(mistaken, "func main() {}", "", 1)})
	dir := program(t, mistaken)
	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	in := func(dir, module string) {
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(dir+"/go.mod", []byte(strings.Replace(string(mod), "module program", "module "+module, 1)), 0o600))
		require.NoError(t, os.WriteFile(dir+"/main.go", []byte(mistaken), 0o600))
	}
	in("inner", "inner")
	in("../"+filepath.Base(dir)+"-beside", "beside")
	for name, file := range map[string]string{"linked": "linked.go", "within": "within.go"} {
		require.NoError(t, os.Mkdir(name, 0o700))
		to := filepath.Join(other, "linked.go")
		if name == "within" {
			to = filepath.Join(dir, "main.go")
		}
		require.NoError(t, os.Symlink(to, filepath.Join(name, file)))
	}
	work := "go 1.26.0\n\nuse (\n\t.\n\t./inner\n\t../" + filepath.Base(dir) + "-beside\n)\n"
	require.NoError(t, os.WriteFile("go.work", []byte(work), 0o600))
	for _, row := range []struct {
		name, args, work string
		status           int
	}{
		{"a module next to the current module", "beside", dir + "/go.work", 2},
		{"a module inside the current module", "./inner", dir + "/go.work", 2},
		{"a link to a file outside of the module", "./linked", "off", 2},
		{"a file of another directory", filepath.Join(other, "linked.go"), "off", 2},
		{"a link to a file inside the module", "-diff ./within", "off", 1},
		{"the standard library", "io", "off", 2},
		{"this package", ".", dir + "/go.work", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Setenv("GOWORK", row.work)
			_, stderr, status := tool("", append([]string{"vet", "-fix"}, strings.Fields(row.args)...)...)
			assert.Equal(t, row.status, status, stderr)
			assert.Equal(t, row.status != 0 && !strings.HasPrefix(row.args, "-diff"), strings.Contains(stderr, says), stderr)
		})
	}
	for _, file := range []string{"inner/main.go", "../" + filepath.Base(dir) + "-beside/main.go"} {
		is, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, mistaken, string(is))
	}
	t.Chdir(t.TempDir())
	_, stderr, status := tool("", "vet", "-fix", ".")
	assert.Equal(t, 2, status)
	assert.Contains(t, stderr, "the current directory is not in a module: "+says)
}

// A //line comment in the source can name a file. Vet prints such a name without the characters on
// which a terminal or a CI service would act.
func TestVetPrintsNoCommands(t *testing.T) {
	for _, test := range []struct{ name, file, want string }{
		{"for a terminal", "\x1b[31mred.go", "?[31mred.go:3:"},
		{"for a terminal, in one byte", "a\u009b2Jb.go", "a?2Jb.go:3:"},
		{"for text in reverse", "a\u202eog.b", "a?og.b:3:"},
		{"for GitHub", "::error title=x.go", "./::error title=x.go:3:"},
		{"for GitHub and Azure", "x##[error]##vso[y]z.go", "x#?[error]#?vso[y]z.go:3:"},
		{"a plain name", "other.go", "other.go:3:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			program(t, strings.Replace(mistaken, "func call(", "//line "+test.file+":2\nfunc call(", 1))
			_, stderr, status := tool("", "vet", ".")
			assert.Equal(t, 1, status)
			assert.Contains(t, "\n"+stderr, "\n"+test.want)
		})
	}
}

// Vet says how many packages and calls it looked at.
func TestVetCountsCalls(t *testing.T) {
	for _, test := range []struct{ name, main, want string }{
		{"a call", strings.Replace(mistaken, "ping(ctx)", "ping(attempt)", 1), "1 package, 1 call of retry\n"},
		{"a Transport and a call", `package main

import (
	"net/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

var _, _ = &http.Client{Transport: &retryhttp.Transport{Policy: retry.Default()}}, retryhttp.LLM(retry.Default())

func main() {}
`, "1 package, 2 calls of retry\n"},
		{"none", "package main\n\nfunc main() {}\n", "no call of github.com/goretry/retry in 1 package\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			program(t, test.main)
			stdout, stderr, status := tool("", "vet", "./...")
			assert.Zero(t, status)
			assert.Empty(t, stdout)
			assert.Equal(t, test.want, stderr)
		})
	}
}

func TestVetNeedsGo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	stdout, stderr, status := tool("", "vet")
	assert.Equal(t, 1, status)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, `exec: "go": executable file not found`)
}

// calledByVet distinguishes the arguments that go vet passes to its tool from the arguments of a
// user.
func TestCalledByVetRecognizesGoVet(t *testing.T) {
	for _, test := range []struct {
		args string
		want bool
	}{
		{"-V=full", true},
		{"-flags", true},
		{"/tmp/vet.cfg", true},
		{"-json -outerctx=false /tmp/vet.cfg", true},
		{"-fix -diff vet.cfg", true},
		{"", false},
		{"-h", false},
		{"version", false},
		{"vet ./...", false},
		{"plan policy.cfg", false},
		{"lint -from native policy.cfg", false},
	} {
		assert.Equal(t, test.want, calledByVet(strings.Fields(test.args)), test.args)
	}
}
