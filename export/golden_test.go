package export

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
)

var update = flag.Bool("update", false, "write the golden files again: go test ./export -run Golden -update")

// A change of the golden files is a change of a schema. XML, JSON and stacks of
// small() are of the first version of ccmapd, which had no windows, pruned nothing
// and knew no points.
var golden = map[string]func() *ccmap.Map{"small": small, "pruned": pruned, "points": points, "wasm": wasm, "located": located, "labels": labels}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, m := range golden {
		for _, f := range Formats() {
			extension := f.Extensions()[0]
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

// The schemas name all that the golden files hold.
func TestSchemasNameAll(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ schema, golden, declares, uses string }{
		{"ccmap.xsd", "testdata/pruned.xml", `name="([a-z_]+)"`, `<([a-z_]+)[ >]|([a-z_]+)="[^"]*"[ />]`},
		{"ccmap.schema.json", "testdata/pruned.json", `"([a-z_]+)": [{]`, `"([a-z_]+)":`},
		{"ccmap.xsd", "testdata/wasm.xml", `name="([a-z_]+)"`, `<([a-z_]+)[ >]|([a-z_]+)="[^"]*"[ />]`},
		{"ccmap.schema.json", "testdata/wasm.json", `"([a-z_]+)": [{]`, `"([a-z_]+)":`},
		{"ccmap.xsd", "testdata/points.xml", `name="([a-z_]+)"`, `<([a-z_]+)[ >]|([a-z_]+)="[^"]*"[ />]`},
		{"ccmap.schema.json", "testdata/points.json", `"([a-z_]+)": [{]`, `"([a-z_]+)":`},
		{"ccmap.xsd", "testdata/located.xml", `name="([a-z_]+)"`, `<([a-z_]+)[ >]|([a-z_]+)="[^"]*"[ />]`},
		{"ccmap.schema.json", "testdata/located.json", `"([a-z_]+)": [{]`, `"([a-z_]+)":`},
	} {
		declared := matches(t, test.schema, test.declares)
		for _, name := range matches(t, test.golden, test.uses) {
			if !slices.Contains(declared, name) {
				t.Errorf("%s does not declare %q", test.schema, name)
			}
		}
	}
}

// matches returns the groups of all matches in a file.
func matches(t *testing.T, path, pattern string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, groups := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(data), -1) {
		names = append(names, strings.Join(groups[1:], ""))
	}
	if len(names) == 0 {
		t.Fatalf("%s: nothing matches %s", path, pattern)
	}
	return names
}

func TestJSONSchemaIsJSON(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("ccmap.schema.json")
	if err == nil {
		err = json.Unmarshal(data, new(any))
	}
	if err != nil {
		t.Error(err)
	}
}
