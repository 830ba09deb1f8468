// Api compares the exported API of each package of this module with its file in
// api/, so that a change of the API is a change of a file that a reviewer reads:
//
//	go run ./internal/api           fails where an API has changed and its file has not
//	go run ./internal/api -update   writes the files
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	update := flag.Bool("update", false, "write the files")
	flag.Parse()
	report, err := check(".", *update)
	if err != nil {
		report = "api: " + err.Error()
	}
	if report != "" {
		fmt.Fprintln(os.Stderr, report)
		os.Exit(1)
	}
}

// check returns how the API of the module in a directory differs from its files,
// "" if it does not. With update it writes the files that differ.
func check(dir string, update bool) (report string, err error) {
	want, err := apis(dir)
	if err != nil {
		return "", err
	}
	have := map[string][]string{}
	files, err := filepath.Glob(filepath.Join(dir, "api", "*.txt"))
	for _, file := range files {
		data, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr)
		have[filepath.Base(file)] = strings.Split(strings.TrimSpace(string(data)), "\n")
	}
	var changed, lines []string
	all := maps.Clone(want)
	maps.Copy(all, have)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		diff := append(without(have[name], want[name], "-"), without(want[name], have[name], "+")...)
		if diff == nil {
			continue
		}
		changed, lines = append(changed, strings.TrimSuffix(name, ".txt")), append(lines, diff...)
		if update {
			err = errors.Join(err, write(filepath.Join(dir, "api", name), want[name]))
		}
	}
	if update || changed == nil {
		return "", err
	}
	return fmt.Sprintf("the exported API of %s has changed: run go run ./internal/api -update, and commit api/\n%s",
		strings.Join(changed, ", "), strings.Join(lines, "\n")), err
}

// without returns the lines that others do not have, each after a sign.
func without(lines, others []string, sign string) (found []string) {
	for _, line := range lines {
		if !slices.Contains(others, line) {
			found = append(found, sign+line)
		}
	}
	return found
}

// write writes a file, or removes one whose package is gone.
func write(file string, lines []string) error {
	if lines == nil {
		return os.Remove(file)
	}
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
}

// apis returns the lines of each package, by the name of its file. It builds for
// one platform, so that they are the same on all. Commands and internal packages
// promise nothing.
func apis(dir string) (map[string][]string, error) {
	list := exec.Command("go", "list", "-export", "-deps", "-f",
		"{{.ImportPath}}\t{{.Export}}\t{{if and .GoFiles (not .DepOnly) (ne .Name `main`)}}{{.Module.Path}}{{end}}", "./...")
	list.Dir, list.Stderr = dir, os.Stderr
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	output, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports, modules := map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(output)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		path, module := fields[0], fields[2]
		exports[path] = fields[1]
		if module != "" && !slices.Contains(strings.Split(path, "/"), "internal") {
			modules[path] = module
		}
	}
	load := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	found := map[string][]string{}
	for path, module := range modules {
		pkg, err := load.Import(path)
		if err != nil {
			return nil, err
		}
		name := cmp.Or(strings.TrimPrefix(strings.TrimPrefix(path, module), "/"), pkg.Name())
		found[strings.ReplaceAll(name, "/", "_")+".txt"] = linesOf(pkg)
	}
	return found, nil
}

// linesOf returns a line for each exported thing of a package, sorted.
func linesOf(pkg *types.Package) (lines []string) {
	add := func(format string, args ...any) {
		lines = append(lines, "pkg "+pkg.Path()+", "+fmt.Sprintf(format, args...))
	}
	for _, name := range pkg.Scope().Names() {
		obj := pkg.Scope().Lookup(name)
		if !obj.Exported() {
			continue
		}
		switch obj := obj.(type) {
		case *types.Const:
			add("const %s %s = %s", name, text(pkg, obj.Type()), obj.Val().ExactString())
		case *types.Var:
			add("var %s %s", name, text(pkg, obj.Type()))
		case *types.Func:
			add("func %s%s%s", name, typeParams(obj.Signature()), strings.TrimPrefix(text(pkg, obj.Type()), "func"))
		case *types.TypeName:
			if alias, ok := obj.Type().(*types.Alias); ok {
				add("type %s = %s", name, text(pkg, alias.Rhs()))
				if strings.Contains(text(pkg, alias.Rhs()), "/internal/") { // its fields and methods are promised here
					addType(add, pkg, types.Unalias(alias))
				}
			} else {
				addType(add, pkg, obj.Type())
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// addType adds the lines of a type: itself, its exported fields, its methods.
func addType(add func(format string, args ...any), pkg *types.Package, t types.Type) {
	var methods types.Type = types.NewPointer(t)
	switch u := t.Underlying().(type) {
	case *types.Struct:
		add("type %s struct", text(pkg, t))
		for i := range u.NumFields() {
			if f := u.Field(i); f.Exported() { // with its tag, which names its key in JSON
				add("type %s struct, %s", text(pkg, t), strings.TrimSpace(f.Name()+" "+text(pkg, f.Type())+" "+u.Tag(i)))
			}
		}
	case *types.Interface:
		add("type %s interface", text(pkg, t))
		methods = t
	default:
		add("type %s %s", text(pkg, t), text(pkg, u))
	}
	values := types.NewMethodSet(t)
	for m := range types.NewMethodSet(methods).Methods() {
		if fn := m.Obj(); fn.Exported() || methods == t { // an unexported method of an interface keeps others from implementing it
			star := "*"
			if values.Lookup(fn.Pkg(), fn.Name()) != nil {
				star = ""
			}
			add("method (%s%s) %s%s", star, text(pkg, t), fn.Name(), strings.TrimPrefix(text(pkg, m.Type()), "func"))
		}
	}
}

// typeParams writes the type parameters of a generic function.
func typeParams(s *types.Signature) string {
	var params []string
	for p := range s.TypeParams().TypeParams() {
		params = append(params, p.Obj().Name()+" "+p.Constraint().String())
	}
	if params == nil {
		return ""
	}
	return "[" + strings.Join(params, ", ") + "]"
}

// text writes a type as the source of its package does.
func text(pkg *types.Package, t types.Type) string {
	return types.TypeString(unnamed(t), types.RelativeTo(pkg))
}

// unnamed returns a function's type without the names of its parameters, on which
// no program depends.
func unnamed(t types.Type) types.Type {
	s, ok := t.(*types.Signature)
	if !ok {
		return t
	}
	tuple := func(list *types.Tuple) *types.Tuple {
		var vars []*types.Var
		for v := range list.Variables() {
			vars = append(vars, types.NewParam(token.NoPos, nil, "", unnamed(v.Type())))
		}
		return types.NewTuple(vars...)
	}
	return types.NewSignatureType(nil, nil, nil, tuple(s.Params()), tuple(s.Results()), s.Variadic())
}
