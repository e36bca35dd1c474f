package export

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// compilerProfile returns the CPU profile that the Go compiler itself is built with.
func compilerProfile(t *testing.T) string {
	t.Helper()
	root := strings.TrimSpace(goTool(t, "env", "GOROOT"))
	return filepath.Join(root, "src/cmd/compile/default.pgo")
}

// converted reads a profile and writes it again, under a name.
func converted(t *testing.T, path, name string) string {
	t.Helper()
	m, _, err := ReadFile(path, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return writeTemp(t, name, m)
}

// preprocessed makes of a profile what the compiler reads.
func preprocessed(t *testing.T, path string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "edges")
	goTool(t, "tool", "preprofile", "-i", path, "-o", out)
	return out
}

// pgoEdges are the calls that the compiler finds in a profile: caller, callee and the
// offset of the line.
func pgoEdges(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(preprocessed(t, path))
	if err != nil {
		t.Fatal(err)
	}
	var edges []string
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")[1:]
	for edge := range slices.Chunk(lines, 3) {
		offset, _, _ := strings.Cut(edge[2], " ")
		edges = append(edges, edge[0]+" "+edge[1]+" "+offset)
	}
	slices.Sort(edges)
	return edges
}

// The compiler finds as many calls in what we make of its own profile as in the profile
// itself: 3,532 of Go 1.26.
func TestConvertKeepsEdgesOfPGO(t *testing.T) {
	if testing.Short() {
		t.Skip("runs go tool preprofile")
	}
	t.Parallel()
	profile := compilerProfile(t)
	want, got := pgoEdges(t, profile), pgoEdges(t, converted(t, profile, "default.pb"))
	if len(want) != len(got) {
		t.Errorf("%d edges, want %d:\n%s", len(got), len(want), cmp.Diff(want, got))
	}
}

// The compiler inlines the same calls in types2 with either profile: 76 of Go 1.26.
func TestConvertKeepsDecisionsOfPGO(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a package of the compiler, twice")
	}
	t.Parallel()
	profile := compilerProfile(t)
	want, got := decisions(t, profile), decisions(t, converted(t, profile, "default.pb"))
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("of %d decisions (-its own profile +ours):\n%s", len(want), diff)
	}
}

// decisions returns the calls that the compiler inlines in types2 because a profile
// says that they are hot.
func decisions(t *testing.T, profile string) []string {
	t.Helper()
	const pkg = "cmd/compile/internal/types2"
	dir := t.TempDir()
	imports := filepath.Join(dir, "importcfg")
	list := goTool(t, "list", "-export", "-deps", "-f", "{{if .Export}}packagefile {{.ImportPath}}={{.Export}}{{end}}", pkg)
	if err := os.WriteFile(imports, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	version := strings.Join(strings.SplitN(runtime.Version(), ".", 3)[:2], ".")
	args := []string{
		"tool", "compile", "-o", filepath.Join(dir, "types2.a"), "-p", pkg, "-importcfg", imports, "-complete", "-std",
		"-lang=" + version, "-pgoprofile=" + preprocessed(t, profile), "-d=pgodebug=1",
	}
	files := goTool(t, "list", "-f", `{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}} {{end}}`, pkg)
	var inlined []string
	for line := range strings.Lines(goTool(t, append(args, strings.Fields(files)...)...)) {
		if strings.Contains(line, "hot-budget check allows inlining") {
			inlined = append(inlined, line)
		}
	}
	slices.Sort(inlined)
	return inlined
}
