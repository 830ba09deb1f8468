package retry_test

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// These tests read the go.mod of each module in the repository. They are skipped in the module
// cache of a user, which contains only the library.

const modulePath = "github.com/goretry/retry"

// The library requires three modules. It requires the lowest versions with which the tests pass, so
// that the go.mod of a user can keep low versions too.
func TestLibraryRequiresThreeModules(t *testing.T) {
	mod := readGoMod(t, "go.mod")
	direct := map[string]string{}
	for _, r := range mod.Require {
		if !r.Indirect {
			direct[r.Path] = r.Version
		}
	}
	assert.Equal(t, map[string]string{
		"github.com/cenkalti/backoff/v4": "v4.3.0",
		"github.com/stretchr/testify":    "v1.7.5",
		"golang.org/x/exp":               "v0.0.0-20220303212507-bbda1eaf7a17", // used only by a test
	}, direct)
	assert.Equal(t, "1.25", mod.Go)
	assert.Empty(t, mod.Toolchain)
	assert.Empty(t, mod.Replace)
}

// The go.mod of a nested module starts with a comment that says why it is a module. Its go line is
// 1.25 or 1.26.0, and its replace directives lead to this checkout. A module in cmd has no replace
// directive, because go install refuses a module with such a directive. The file cmd/go.work
// contains these directives instead.
func TestGoModOfNestedModules(t *testing.T) {
	modules := goMods(t)
	require.Contains(t, modules, "cmd/retry/go.mod")
	for _, file := range modules[1:] {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.True(t, strings.HasPrefix(string(text), "// "), "no comment in the first line")

			mod, dir := readGoMod(t, file), path.Dir(file)
			assert.Contains(t, []string{"1.25", "1.26.0"}, mod.Go)
			assert.Empty(t, mod.Toolchain)
			up, replaced := strings.Repeat("../", strings.Count(dir, "/")+1), map[string]bool{}
			for _, r := range mod.Replace {
				below, ours := strings.CutPrefix(r.Old.Path, modulePath)
				assert.True(t, ours, "a replace of %s", r.Old.Path)
				assert.Equal(t, path.Clean(up+below), r.New.Path)
				replaced[r.Old.Path] = true
			}
			for _, r := range mod.Require {
				if strings.HasPrefix(r.Path, modulePath) {
					assert.Equal(t, path.Dir(dir) != "cmd", replaced[r.Path], "a replace of %s", r.Path)
				}
			}
		})
	}
}

// Modules that need a server or other libraries are in one of the workflow's jobs.
func TestWorkflowTestsEveryModule(t *testing.T) {
	workflow, err := os.ReadFile(".github/workflows/ci.yml")
	require.NoError(t, err)
	tests, err := filepath.Glob("integration/*/*_test.go")
	require.NoError(t, err)
	require.NotEmpty(t, tests)
	for _, file := range append(goMods(t)[1:], tests...) {
		if dir := path.Dir(filepath.ToSlash(file)); dir != "integration" && dir != ".ci/tools" {
			assert.Contains(t, string(workflow), " "+dir)
		}
	}
}

// A module uses only exported packages of other modules, because go get may raise the version of
// one module alone. .ci/renamed builds each module with other names for the internal packages.
func TestModulesImportNoInternalPackageOfAnother(t *testing.T) {
	files := 0
	for _, file := range goMods(t)[1:] {
		module := path.Dir(file)
		require.NoError(t, filepath.WalkDir(module, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || path.Ext(name) != ".go" {
				return err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if files++; err != nil {
				return err
			}
			for _, imported := range imports(parsed) {
				of, _, internal := strings.Cut(imported, "/internal/")
				own := of == modulePath+"/"+module || strings.HasPrefix(of, modulePath+"/"+module+"/")
				assert.False(t, internal && strings.HasPrefix(of, modulePath) && !own, "%s imports %s", name, imported)
			}
			return nil
		}))
	}
	assert.Greater(t, files, 300)
}

// goMod contains what "go mod edit -json" prints about a go.mod.
type goMod struct {
	Go        string
	Toolchain string
	Require   []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []struct{ Old, New struct{ Path string } }
}

func readGoMod(t *testing.T, file string) (mod goMod) {
	t.Helper()
	text, err := exec.Command("go", "mod", "edit", "-json", file).Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &mod))
	return mod
}

// goMods returns the go.mod files of the repository. The first is the go.mod of the root.
func goMods(t *testing.T) []string {
	if _, err := os.Stat("cmd/retry"); err != nil {
		t.Skip("not a checkout of the repository")
	}
	files := []string{"go.mod"}
	require.NoError(t, filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.Name() == "go.mod" && name != "go.mod":
			files = append(files, filepath.ToSlash(name))
		}
		return nil
	}))
	return files
}
