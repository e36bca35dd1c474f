package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sourcesHead begins each table of the page on the sources.
const sourcesHead = "| § | statement | here | how it differs, and why |\n| --- | --- | --- | --- |\n"

var (
	// notHere stands in place of references.
	notHere = map[string]bool{"not here": true, "not here yet": true}

	codeSpans  = regexp.MustCompile("`([^`]+)`")
	namedPaths = regexp.MustCompile(`^[A-Za-z0-9_./-]+(/|/[A-Za-z0-9_.-]+\.[a-z]+)$`)
	namedDecls = regexp.MustCompile(`^((?:[a-z][a-z0-9]*/)*[a-z][a-z0-9]*)\.([A-Z]\w*(?:\.[A-Z]\w*)?)$`)
)

// TestSources holds that the page on the sources names only what is there, and that each of its rows says where a
// statement is, or that it is not here.
func TestSources(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("sources.md")
	if err != nil {
		t.Fatal(err)
	}
	known := declarationsOfAll(t)
	sections := strings.Split(string(text), "\n## ")[1:]
	if len(sections) != 5 {
		t.Errorf("the page has %d sections, want one for each of five documents", len(sections))
	}
	for _, section := range sections {
		title, _, _ := strings.Cut(section, "\n")
		_, table, found := strings.Cut(section, "\n"+sourcesHead)
		rows := strings.Split(strings.TrimSpace(table), "\n")
		if !found || len(rows) < 10 {
			t.Errorf("%s has no table with all statements", title)
			continue
		}
		for _, row := range rows {
			for _, err := range known.checkRow(row) {
				t.Errorf("%s: %.70s …: %v", title, row, err)
			}
		}
	}
}

// TestReferencesOfSources gives names that were made up to the check of TestSources.
func TestReferencesOfSources(t *testing.T) {
	t.Parallel()
	known := declarationsOfAll(t)
	for reference, want := range map[string]string{
		"ccmap/fold.go":         "",
		"ccmap/":                "",
		"ccmap/made_up.go":      "no such file",
		"made_up/":              "no such file",
		"ccmap.Map":             "",
		"ccmap.Map.Fold":        "", // a method
		"ccmap.Frame.Offset":    "", // a field
		"managed.Walker.Walk":   "", // of an interface
		"ccmap.OriginVM":        "", // a constant
		"ccmap.MadeUp":          "declares",
		"ccmap.Map.MadeUp":      "declares",
		"madeup.Map":            "no package",
		"hotspot.Find":          "several packages",
		"feedback/hotspot.Find": "",
		"--hits":                "neither",
	} {
		err := known.check(reference)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want an error with %q", reference, err, want)
		}
	}
	for row, wrong := range map[string]int{
		"| 1 | says so | `ccmap/fold.go`, `TestMadeUp` | as `--hits` does |": 0, // TestNamedTests has the tests
		"| 1 | says so | not here yet | `ccmap.MadeUp` |":                    1,
		"| 1 | says so | [page](map.md) | |":                                 0,
		"| 1 | says so | `--hits` | |":                                       1,
		"| 1 | says so | somewhere | |":                                      1,
		"| 1 | says so | `ccmap.Map` |":                                      1,
	} {
		if errs := known.checkRow(row); len(errs) != wrong {
			t.Errorf("%s: %v, want %d errors", row, errs, wrong)
		}
	}
}

// declarations are the names that packages declare, by their folders: "Map", "Map.Fold".
type declarations map[string]map[string]bool

// checkRow checks a row of the page. The code of the third cell is references alone; that of the fourth may be
// anything.
func (d declarations) checkRow(row string) (errs []error) {
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(row, "| "), "|"), " | ")
	if len(cells) != 4 {
		return []error{fmt.Errorf("it has %d cells, want 4", len(cells))}
	}
	here := cells[2]
	spans := codeSpans.FindAllStringSubmatch(here, -1)
	if len(spans) == 0 && !notHere[here] && !links.MatchString(here) {
		errs = append(errs, fmt.Errorf("%q names no place", here))
	}
	for _, span := range spans {
		if err := d.check(span[1]); err != nil && !named.MatchString(span[0]) {
			errs = append(errs, err)
		}
	}
	for _, span := range codeSpans.FindAllStringSubmatch(cells[3], -1) {
		if err := d.check(span[1]); err != nil && (namedPaths.MatchString(span[1]) || namedDecls.MatchString(span[1])) {
			errs = append(errs, err)
		}
	}
	return errs
}

// check returns an error unless a reference means a file, a folder or a declaration.
func (d declarations) check(reference string) error {
	if namedPaths.MatchString(reference) {
		if _, err := os.Stat(filepath.Join("..", reference)); err != nil {
			return fmt.Errorf("%s: no such file", reference)
		}
		return nil
	}
	name := namedDecls.FindStringSubmatch(reference)
	if name == nil {
		return fmt.Errorf("%s is neither a path nor package.Name", reference)
	}
	switch folders := d.folders(name[1]); {
	case len(folders) == 0:
		return fmt.Errorf("%s: no package %s", reference, name[1])
	case len(folders) > 1:
		return fmt.Errorf("%s: several packages end so: %v", reference, folders)
	case !d[folders[0]][name[2]]:
		return fmt.Errorf("%s: no file of %s declares it", reference, folders[0])
	}
	return nil
}

// folders returns the folders of packages that a name of a package can mean: its own, or all that end so.
func (d declarations) folders(name string) (found []string) {
	if d[name] != nil {
		return []string{name}
	}
	for folder := range d {
		if strings.HasSuffix(folder, "/"+name) {
			found = append(found, folder)
		}
	}
	return found
}

// declarationsOfAll returns what all packages of the repository declare, without their tests.
func declarationsOfAll(t *testing.T) declarations {
	t.Helper()
	all := make(declarations)
	files := token.NewFileSet()
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder := path.Dir(strings.TrimPrefix(filepath.ToSlash(name), "../"))
		if all[folder] == nil {
			all[folder] = make(map[string]bool)
		}
		for _, declaration := range file.Decls {
			addNames(all[folder], declaration)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// addNames adds the names of a declaration: of a type those of its fields and methods, too.
func addNames(names map[string]bool, declaration ast.Decl) {
	if f, ok := declaration.(*ast.FuncDecl); ok {
		names[receiver(f)+f.Name.Name] = true
		return
	}
	for _, spec := range declaration.(*ast.GenDecl).Specs {
		switch s := spec.(type) {
		case *ast.ValueSpec:
			for _, name := range s.Names {
				names[name.Name] = true
			}
		case *ast.TypeSpec:
			names[s.Name.Name] = true
			for _, name := range members(s.Type) {
				names[s.Name.Name+"."+name.Name] = true
			}
		}
	}
}

// receiver returns "Type." of a method, "" of a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr: // generic
			of = t.X
		case *ast.Ident:
			return t.Name + "."
		default:
			return ""
		}
	}
}

// members returns the names of the fields of a struct, or of the methods of an interface.
func members(of ast.Expr) (names []*ast.Ident) {
	var list *ast.FieldList
	switch t := of.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return nil
	}
	for _, field := range list.List {
		names = append(names, field.Names...)
	}
	return names
}
