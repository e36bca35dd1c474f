package export

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files again: go test ./export -run Golden -update")

// The golden files are those of small(), and a change of them is a change of a
// schema.
var golden = map[string]Format{
	"small.xml":    XML,
	"small.json":   JSON,
	"small.folded": Folded,
	"small.pb":     Pprof,
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, format := range golden {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("testdata", name)
			got := encode(t, format, small().Snapshot())
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
		})
	}
}

// checkReadAgain makes sure that what was once written is still read, as the
// same map.
func checkReadAgain(t *testing.T, path string, want Format) {
	m, got, err := ReadFile(path, ReadOptions{})
	if err != nil || got != want {
		t.Fatalf("%v, %v", got, err)
	}
	if diff := cmp.Diff(encode(t, want, small().Snapshot()), encode(t, want, m.Snapshot())); diff != "" {
		t.Errorf("read and written again (-want +got):\n%s", diff)
	}
}
