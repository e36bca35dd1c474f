package export

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

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
