package export

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
)

var update = flag.Bool("update", false, "write the golden files again: go test ./export -run Golden -update")

// A change of the golden files is a change of a schema. XML, JSON and stacks of
// small() are of the first version of ccmapd, which had no windows, pruned nothing
// and knew no points.
var golden = map[string]func() *ccmap.Map{"small": small, "pruned": pruned, "points": points, "wasm": wasm, "located": located}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, m := range golden {
		for _, extension := range []string{".xml", ".json", ".folded", ".pb"} {
			t.Run(name+extension, func(t *testing.T) {
				t.Parallel()
				checkGolden(t, filepath.Join("testdata", name+extension), m().Snapshot())
			})
		}
	}
}

func checkGolden(t *testing.T, path string, s *ccmap.Snapshot) {
	format, _, err := FormatOf(path)
	if err != nil {
		t.Fatal(err)
	}
	got := encode(t, format, s)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	checkReadAgain(t, path, format)
}

// checkReadAgain makes sure that what was once written is still read, as the
// same map.
func checkReadAgain(t *testing.T, path string, want Format) {
	m, got, err := ReadFile(path, ReadOptions{})
	if err != nil || got != want {
		t.Fatalf("%v, %v", got, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(data), encode(t, want, m.Snapshot())); diff != "" {
		t.Errorf("read and written again (-want +got):\n%s", diff)
	}
}

// What the first version wrote is still read: it had no labels.
func TestReadFirstPprof(t *testing.T) {
	t.Parallel()
	m, _, err := ReadFile("testdata/first.pb", ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(encode(t, Folded, small().Snapshot()), encode(t, Folded, m.Snapshot())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
