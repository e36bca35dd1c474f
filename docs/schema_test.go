package docs

import (
	"encoding"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/view"
)

// TestSchema compares commands.schema.json with the types that commands print with
// --json. To write it anew: go test ./docs -run TestSchema -update
func TestSchema(t *testing.T) {
	t.Parallel()
	s := schemas{map[string]any{}, map[string]bool{}}
	for command, v := range views(t) {
		s.defs["ccmapd "+command] = s.of(reflect.TypeOf(v.JSON()))
	}
	now, err := json.MarshalIndent(map[string]any{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "Output of ccmapd's commands with --json",
		"description": "A definition for each command, as \"ccmapd top\", and for each part. docs/formats.md explains the members.",
		"$defs":       s.defs,
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	now = append(now, '\n')
	explained, err := os.ReadFile("formats.md")
	if err != nil {
		t.Fatal(err)
	}
	for member := range s.members {
		if !strings.Contains(string(explained), "`"+member+"`") {
			t.Errorf("formats.md does not explain the member %s", member)
		}
	}
	const file = "commands.schema.json"
	if *update {
		if err := os.WriteFile(file, now, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(file); err != nil || string(old) != string(now) {
		t.Errorf("%s is not of the present types (%v)", file, err)
	}
}

// views returns a view for each command, by name.
func views(t *testing.T) map[string]view.View {
	t.Helper()
	a, b := load(t, "web.pb.gz"), load(t, "later.pb.gz")
	path, err := query.ParsePath("net/http.(*conn).serve")
	if err != nil {
		t.Fatal(err)
	}
	counted, err := query.New(a.Snapshot, path, query.Named)
	if err != nil {
		t.Fatal(err)
	}
	top, err := view.NewTop(a, view.List{})
	if err != nil {
		t.Fatal(err)
	}
	overlap, err := view.NewOverlap([]*view.Profile{a, b}, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	diff, err := view.NewDiff(a, b, view.DiffLists{}, compare.DiffOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]view.View{
		"top": top, "overlap": overlap, "diff": diff,
		"contexts":  view.NewContexts(a, view.List{}, 0),
		"sites":     view.NewSites(a, view.List{}, 0),
		"receivers": view.NewReceivers(a, view.ReceiversList{Depth: 1}),
		"points":    view.NewPoints(a, view.PointsList{}),
		"query":     view.NewQuery(a, counted, view.List{}),
	}
}

func load(t *testing.T, name string) *view.Profile {
	t.Helper()
	m, _, err := export.ReadFile(filepath.Join("session", name), export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return view.New(name, m.Snapshot())
}

// schemas collects the schemas of named types, and the names of all members.
type schemas struct {
	defs    map[string]any
	members map[string]bool
}

var textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()

// of returns the schema of a type, as encoding/json marshals it.
func (s schemas) of(t reflect.Type) any {
	if t.Implements(textMarshaler) {
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Slice, reflect.Array:
		return map[string]any{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.object(t)
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Interface:
		return true
	}
	return map[string]any{"type": "integer"}
}

// object returns the schema of a struct, or a reference to it if it has a name.
func (s schemas) object(t reflect.Type) any {
	name := t.Name()
	if name != "" {
		name = t.String() // with its package
	}
	if _, known := s.defs[name]; name != "" && known {
		return map[string]any{"$ref": "#/$defs/" + name}
	}
	members, required := map[string]any{}, []string{}
	schema := map[string]any{"type": "object", "properties": members}
	if name != "" {
		s.defs[name] = schema // before its members, which may refer to it
	}
	for _, f := range reflect.VisibleFields(t) {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == "-" || f.Anonymous && tag == "" || !f.IsExported():
			continue
		case tag == "":
			tag = f.Name
		}
		members[tag], s.members[tag] = s.of(f.Type), true
		if !strings.Contains(options, "omit") {
			required = append(required, tag)
		}
	}
	if len(required) > 0 {
		schema["required"] = required
	}
	if name == "" {
		return schema
	}
	return map[string]any{"$ref": "#/$defs/" + name}
}
