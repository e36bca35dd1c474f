package docs

import (
	"go/ast"
	"go/build"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	mostPublic = 19 // packages
	// Of the last 64, five say how sure shares are (compare.Precision), and whom doctor advises (engine.Patient), five
	// tell builds apart (ccmap.Build, Fit, MixedBodies, SetBody, Stale), six are what is hot: Threshold and HotPath,
	// each as text, and three let runs know each other (client.Stored, tuning.Lasting, Resumed). 21 are points that a
	// VM counts itself: Points and Site, with a method of Thread for each kind, the counters of one point
	// (valueprof.Cell), and the kind of numbers. Twelve are for VMs that compile, and begin with what an earlier run
	// has left (managed.ReadCached, Profiler.Cached, Look, LookAtCalls, Threshold, Thread.Compiled …). Twelve more
	// are flame graphs, Flame and FlameDiff with their options and the walk over the occurrences of a path, and the
	// edges of a profile as Go's compiler counts them (export.PGOEdges). Four search for methods (view.Search), and
	// two are the files of the pages and their policy (web). Five show profiles in a browser: the routes over files and
	// sessions (api.Local), and the daemon's (client.Daemon.Proxy, FullRef). Five are mode 2 of WebAssembly guests: what
	// an earlier run's profile knows (managed.ReadCachedProfile, Cached.Profile, Cached.Level), and what became of it
	// (wasm.CachedUse, Profiler.CachedUses). Three are the engine of waits and its units: engine.Memory, Wait and Wall.
	// Five are what has waited for long: engine.FindStuck, StuckOptions, Stuck, StuckGroup and StuckFrame.
	// Twelve tell when samples were counted (ccmap.Moment, view.Heat) and on which lines (view.Lines), and two are
	// what they and searches need: Snapshot.PathIDs and Cumulative.
	// Three lead to the hub of a fleet: client.Hub, with Get, and Reader.Hub.
	// Ten are what requests and VMs wait for: functions that answer requests (query.Answering, ccmap.CommentRequests), and waits
	// of threads as a source beside a profiler (managed.Waits, Profiler.Waits, Thread.Blocked, and of starlark's).
	// One is for the inliner of a VM: managed.Cached.FanIn.
	mostExported = 964 // names
)

// TestAPI compares what users of the module can name with api.txt, so that a change of it shows in a diff. To
// write it anew: go test ./docs -run TestAPI -update
func TestAPI(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	packages, names := 0, 0
	for _, folder := range publicFolders(t) {
		lines := exported(t, folder)
		if len(lines) == 0 {
			continue
		}
		packages, names = packages+1, names+len(lines)
		text.WriteString("package " + folder + "\n")
		for _, line := range lines {
			text.WriteString("\t" + strings.ReplaceAll(line, "\n", "\n\t") + "\n")
		}
		text.WriteString("\n")
	}
	t.Logf("%d packages export %d names", packages, names)
	if packages > mostPublic || names > mostExported {
		t.Errorf("%d packages export %d names, at most %d and %d: what does no user need?", packages, names, mostPublic, mostExported)
	}
	if *update {
		if err := os.WriteFile("api.txt", []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("api.txt")
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != text.String() {
		t.Error("the exported names are not those of docs/api.txt; -update writes them")
	}
}

// publicFolders returns the folders of packages that other modules can import, in order.
func publicFolders(t *testing.T) []string {
	t.Helper()
	var public []string
	for folder := range importsOfAll(t) {
		if elements := strings.Split(folder, "/"); !slices.Contains(elements, "internal") && elements[0] != "cmd" && elements[0] != "docs" {
			public = append(public, folder)
		}
	}
	slices.Sort(public)
	return public
}

// exported returns the exported declarations of a package, one a name, with methods after their type.
func exported(t *testing.T, folder string) []string {
	t.Helper()
	dir := filepath.Join("..", folder)
	built, err := build.ImportDir(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range built.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	p, err := doc.NewFromFiles(fset, files, folder)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	add := func(declaration ast.Node) {
		var b strings.Builder
		if err := format.Node(&b, fset, declaration); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, b.String())
	}
	values := func(all []*doc.Value) {
		for _, v := range all {
			for _, spec := range v.Decl.Specs {
				add(&ast.GenDecl{Tok: v.Decl.Tok, Specs: []ast.Spec{spec}})
			}
		}
	}
	functions := func(all []*doc.Func) {
		for _, f := range all {
			f.Decl.Body = nil
			add(f.Decl)
		}
	}
	values(p.Consts)
	values(p.Vars)
	functions(p.Funcs)
	for _, typ := range p.Types {
		add(typ.Decl)
		values(typ.Consts)
		values(typ.Vars)
		functions(typ.Funcs)
		functions(typ.Methods)
	}
	return lines
}
