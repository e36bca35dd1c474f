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
	mostPublic   = 18  // packages
	mostExported = 720 // names, but those of later capabilities
)

// later are the names that came with a capability since the floor plan, by the capability.
var later = map[string]string{
	"how sure shares are":   `ccmap/compare.Precision ccmap/compare.Precision.Alike ccmap/compare.Precision.Interval ccmap/compare.PrecisionOf`,
	"builds are told apart": `ccmap.Build ccmap.Fit ccmap.MixedBodies ccmap.Names.SetBody ccmap.Stale`,
	"what is hot": `manager.HotPath manager.HotPath.String manager.HotPath.UnmarshalText manager.Threshold manager.Threshold.String
		manager.Threshold.UnmarshalText`,
	"runs know each other": `daemon/client.Stored export.Part.Meta tuning.Lasting tuning.Resumed`,
	"points that a VM counts itself": `ccmap.PointNumber sampler/managed.Branches sampler/managed.Calls sampler/managed.Points
		sampler/managed.Profiler.Counted sampler/managed.Profiler.Counts sampler/managed.Profiler.Site sampler/managed.Site
		sampler/managed.Thread.Block sampler/managed.Thread.Branch sampler/managed.Thread.Merge sampler/managed.Thread.Switch
		sampler/managed.Thread.Type sampler/managed.Thread.Value sampler/managed.Types sampler/managed.Values
		valueprof.Cell valueprof.Cell.Count valueprof.Cell.Hit valueprof.Cell.Miss valueprof.Cell.Take`,
	"VMs that compile begin with what an earlier run has left": `ccmap.OriginCached sampler/managed.Cached sampler/managed.Cached.FanIn
		sampler/managed.Cached.Level sampler/managed.Cached.Profile sampler/managed.DefaultScale sampler/managed.Inlined
		sampler/managed.Profiler.Cached sampler/managed.Profiler.Look sampler/managed.Profiler.LookAtCalls
		sampler/managed.Profiler.Threshold sampler/managed.ReadCached sampler/managed.ReadCachedProfile
		sampler/managed.Thread.Compiled sampler/managed.Thread.Deoptimized sampler/wasm.CachedUse sampler/wasm.Profiler.CachedUses
		valueprof.Table.Seed`,
	"edges as Go's compiler counts them": `export.PGOEdge export.PGOEdges`,
	"pages in a browser":                 `daemon/client.Daemon.Proxy daemon/client.FullRef web.Files web.Policy`,
	"operating a daemon":                 `daemon/client.Daemon.Command daemon/client.Daemon.Events sampler/engine.Patient`,
	"when a program was busy":            `ccmap.Map.SetMoments ccmap.Moment ccmap.Snapshot.Cumulative ccmap.Snapshot.Moments ccmap.Snapshot.PathIDs`,
	"the hub of a fleet":                 `daemon/client.Hub daemon/client.Hub.Get`,
	"what goroutines, threads and requests wait for": `ccmap.CommentRequests ccmap/query.Answering ccmap/query.Query.Outermost
		sampler/engine.FindStuck sampler/engine.Memory sampler/engine.Stuck sampler/engine.StuckFrame sampler/engine.StuckGroup
		sampler/engine.StuckOptions sampler/engine.Wait sampler/engine.Wall sampler/managed.Profiler.Waits
		sampler/managed.Thread.Blocked sampler/managed.Waits sampler/managed.Waits.Info sampler/managed.Waits.Run
		sampler/managed.Waits.Sink sampler/managed.Waits.Stats sampler/starlark.Thread.Blocked`,
}

// TestAPI compares what users of the module can name with api.txt, so that a change of it shows in a diff. To
// write it anew: go test ./docs -run TestAPI -update
func TestAPI(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	packages, names := 0, make(map[string]bool)
	for _, folder := range publicFolders(t) {
		all := exported(t, folder)
		if len(all) == 0 {
			continue
		}
		packages++
		text.WriteString("package " + folder + "\n")
		for _, d := range all {
			names[folder+"."+d.name] = true
			text.WriteString("\t" + strings.ReplaceAll(d.text, "\n", "\n\t") + "\n")
		}
		text.WriteString("\n")
	}
	t.Logf("%d packages export %d names", packages, len(names))
	for capability, came := range later {
		for _, name := range strings.Fields(came) {
			if !names[name] {
				t.Errorf("%s, of %q, is no exported name", name, capability)
			}
			delete(names, name)
		}
	}
	if packages > mostPublic || len(names) > mostExported {
		t.Errorf("%d packages export %d names, those of later capabilities aside, at most %d and %d: what does no user need?",
			packages, len(names), mostPublic, mostExported)
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

// declaration is an exported name, Type.Method for a method, and how it is declared.
type declaration struct{ name, text string }

// exported returns the exported declarations of a package, with methods after their type.
func exported(t *testing.T, folder string) []declaration {
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
	var all []declaration
	add := func(name string, declared ast.Node) {
		var b strings.Builder
		if err := format.Node(&b, fset, declared); err != nil {
			t.Fatal(err)
		}
		all = append(all, declaration{strings.TrimPrefix(name, "."), b.String()})
	}
	values := func(some []*doc.Value) {
		for _, v := range some {
			for _, spec := range v.Decl.Specs {
				add(spec.(*ast.ValueSpec).Names[0].Name, &ast.GenDecl{Tok: v.Decl.Tok, Specs: []ast.Spec{spec}})
			}
		}
	}
	functions := func(some []*doc.Func) {
		for _, f := range some {
			f.Decl.Body = nil
			add(strings.TrimPrefix(f.Recv, "*")+"."+f.Name, f.Decl)
		}
	}
	values(p.Consts)
	values(p.Vars)
	functions(p.Funcs)
	for _, typ := range p.Types {
		add(typ.Name, typ.Decl)
		values(typ.Consts)
		values(typ.Vars)
		functions(typ.Funcs)
		functions(typ.Methods)
	}
	return all
}
