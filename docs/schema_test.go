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
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/view"
)

// TestSchema compares commands.schema.json with the columns and types that commands print
// with --json. To write it anew: go test ./docs -run TestSchema -update
func TestSchema(t *testing.T) {
	t.Parallel()
	s := schemas{map[string]any{}, map[string]bool{}}
	for command, layout := range map[string]view.Layout{
		"top": view.TopLayout(), "contexts": view.ContextsLayout(), "sites": view.SitesLayout(),
		"receivers": view.ReceiversLayout(), "points": view.PointsLayout(), "query": view.QueryLayout(),
	} {
		s.defs["ccmapd "+command] = s.ofColumns(layout.Columns)
	}
	for command, v := range comparisons(t) {
		s.defs["ccmapd "+command] = s.of(reflect.TypeOf(v.JSON()))
	}
	s.describe("compare.Change", view.DiffLayout().Columns)
	s.describe("compare.Frame", view.DiffLayout().Columns)
	s.describe("compare.Overlap", view.OverlapLayout().Columns)
	now, err := json.MarshalIndent(map[string]any{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "Output of ccmapd's commands with --json",
		"description": "A definition for each command, as \"ccmapd top\", and for each part of a comparison. docs/formats.md explains the members.",
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

// ofColumns returns the schema of an object with the members of some columns.
func (s schemas) ofColumns(columns []view.Column) any {
	root := map[string]any{"type": "object", "properties": map[string]any{}}
	at := map[string]map[string]any{"": root} // objects, by the keys of their members' parents
	for _, c := range columns {
		if c.Key == "" || strings.HasSuffix(c.Key, ".") {
			continue // in tables only
		}
		parent, member := c.Key[:strings.LastIndexByte(c.Key, '.')+1], c.Key[strings.LastIndexByte(c.Key, '.')+1:]
		is := map[string]any{"description": c.Doc}
		if c.Unit != "" {
			is["description"] = c.Doc + " (" + c.Unit + ")"
		}
		element, isArray := strings.CutSuffix(c.Type, "[]")
		switch {
		case isArray:
			is["type"], is["items"] = "array", map[string]any{"type": element}
		case c.Type == "array":
			items := map[string]any{"type": "object", "properties": map[string]any{}}
			is["type"], is["items"], at[c.Key+"[]."] = "array", items, items
		case c.Type == "object":
			is["type"], is["properties"], at[c.Key+"."] = "object", map[string]any{}, is
		default:
			is["type"] = c.Type
		}
		at[parent]["properties"].(map[string]any)[member], s.members[member] = is, true
		if !c.Optional {
			required, _ := at[parent]["required"].([]string)
			at[parent]["required"] = append(required, member)
		}
	}
	members := root["properties"].(map[string]any)
	s.defs["profile"], members["profile"] = members["profile"], map[string]any{"$ref": "#/$defs/profile"}
	return root
}

// describe adds the descriptions of columns to a schema that was made of a type.
func (s schemas) describe(def string, columns []view.Column) {
	properties := s.defs[def].(map[string]any)["properties"].(map[string]any)
	for _, c := range columns {
		if member, ok := properties[c.Key[strings.LastIndexByte(c.Key, '.')+1:]].(map[string]any); ok {
			member["description"] = c.Doc
		}
	}
}

// comparisons returns the views whose JSON is of package compare.
func comparisons(t *testing.T) map[string]view.View {
	t.Helper()
	a, b := load(t, "web.pb.gz"), load(t, "later.pb.gz")
	overlap, err := view.NewOverlap([]*view.Profile{a, b}, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	diff, err := view.NewDiff(a, b, view.DiffLists{}, compare.DiffOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]view.View{"overlap": overlap, "diff": diff}
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
