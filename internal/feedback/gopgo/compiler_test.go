package gopgo

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }

// compilerProfile returns the path of the profile that the Go compiler itself is built with.
func compilerProfile(t *testing.T) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), "src/cmd/compile/default.pgo")
}

// compilerEdges returns its edges.
func compilerEdges(t *testing.T) []Edge {
	t.Helper()
	m, _, err := export.ReadFile(compilerProfile(t), export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	edges, err := Edges(m.Snapshot(), BySamples)
	if err != nil {
		t.Fatal(err)
	}
	return edges
}

// minimalOf returns the minimal profile.
func minimalOf(t *testing.T, edges []Edge, least int64) *ccmap.Map {
	t.Helper()
	m, err := Minimize(edges, least).Map(ccmap.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// written returns a file of the profile.
func written(t *testing.T, m *ccmap.Map) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "default.pgo")
	err := export.WriteOther(path, func(w io.Writer) error { return export.Write(w, export.Pprof, m.Snapshot()) })
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// read returns the edges of a file as the go command hands them to the compiler, in their order.
func read(t *testing.T, path string) (edges []Edge) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "edges")
	if said, err := exec.Command(programtest.GoTool(t, "preprofile"), "-i", path, "-o", out).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")[1:]
	for e := range slices.Chunk(lines, 3) {
		offset, weight, _ := strings.Cut(e[2], " ")
		at, err := strconv.Atoi(offset)
		n, err2 := strconv.ParseInt(weight, 10, 64)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		edges = append(edges, Edge{Caller: &ccmap.Method{Name: e[0]}, Callee: &ccmap.Method{Name: e[1]}, Offset: uint32(at), Weight: n})
	}
	return edges
}

// TestCompilerReadsRanks: what the go command reads from the minimal profile has the hot edges of the whole one,
// in their order. It reads the same edges from the whole profile as it counts there.
func TestCompilerReadsRanks(t *testing.T) {
	if testing.Short() {
		t.Skip("runs go tool preprofile")
	}
	t.Parallel()
	edges := compilerEdges(t)
	whole := read(t, written(t, Whole(edges, BySamples, ccmap.Meta{})))
	minimal := read(t, written(t, minimalOf(t, edges, 1)))
	want, got := whole[:Hot(whole)], slices.DeleteFunc(minimal[:Hot(minimal)], isFiller)
	if len(want) < 1000 || len(got) != len(want) {
		t.Fatalf("%d hot edges, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i].String() != want[i].String() {
			t.Fatalf("hot edge %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// TestMinimalIsSmall: the minimal profile has at most 31 % of the bytes of the compiler's own, which is a short one.
func TestMinimalIsSmall(t *testing.T) {
	t.Parallel()
	whole, err := os.Stat(compilerProfile(t))
	if err != nil {
		t.Fatal(err)
	}
	if n := compressed(t, minimalOf(t, compilerEdges(t), 1).Snapshot()); 100*n > 31*whole.Size() {
		t.Errorf("%d of %d bytes", n, whole.Size())
	}
}

// compressed returns how many bytes a profile has as a file.
func compressed(t testing.TB, s *ccmap.Snapshot) int64 {
	t.Helper()
	var file bytes.Buffer
	z, err := gzip.NewWriterLevel(&file, gzip.BestCompression)
	if err := errors.Join(err, export.Write(z, export.Pprof, s), z.Close()); err != nil {
		t.Fatal(err)
	}
	return int64(file.Len())
}

// TestMinimalDecides: the compiler decides the same in a package with the minimal profile, and something else
// without the edges of one sample.
func TestMinimalDecides(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	t.Parallel()
	edges := compilerEdges(t)
	var decided [3][]string
	for i, m := range []*ccmap.Map{Whole(edges, BySamples, ccmap.Meta{}), minimalOf(t, edges, 1), minimalOf(t, edges, 2)} {
		var err error
		if decided[i], err = Decisions(t.Context(), "cmd/compile/internal/syntax", written(t, m)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d decisions, %d without edges of one sample", len(decided[0]), len(decided[2]))
	if err := SameDecisions(decided[0], decided[1]); err != nil || len(decided[0]) < 20 {
		t.Errorf("of %d decisions: %v", len(decided[0]), err)
	}
	if err := SameDecisions(decided[0], decided[2]); !errors.Is(err, ErrDecisions) {
		t.Errorf("without edges of one sample: %v", err)
	}
}

// TestDecisionsOfNothing: what cannot be built is an error with the words of the go command.
func TestDecisionsOfNothing(t *testing.T) {
	t.Parallel()
	_, err := Decisions(t.Context(), "./nowhere", os.DevNull)
	if err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Error(err)
	}
	if _, err := Decisions(t.Context(), "-o", os.DevNull); err == nil {
		t.Error("an option is no package")
	}
}
