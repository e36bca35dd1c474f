package docs

import (
	"encoding"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/recording"
	"github.com/ccmapd/ccmapd/internal/view"
)

// TestSchema compares commands.schema.json with the columns that commands print
// with --json. To write it anew: go test ./docs -run TestSchema -update
func TestSchema(t *testing.T) {
	t.Parallel()
	s := schemas{map[string]any{}, map[string]bool{}}
	for _, q := range view.Questions() {
		s.defs["ccmapd "+q.Name] = s.ofColumns(q.Layout.Columns)
		if q.ByLabel.Columns != nil {
			s.defs["ccmapd "+q.Name+" --by label"] = s.ofColumns(q.ByLabel.Columns)
		}
	}
	s.defs["hot"], s.defs["hint"] = s.ofType(reflect.TypeFor[recording.Hot]()), s.ofType(reflect.TypeFor[daemon.Hinted]())
	now, err := json.MarshalIndent(map[string]any{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "Output of ccmapd's commands with --json",
		"description": "A definition for each command, as \"ccmapd top\", and \"hot\" and \"hint\", the data of events of these kinds. docs/json.md lists the members of all commands.",
		"$defs":       s.defs,
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	now = append(now, '\n')
	explained, err := os.ReadFile("json.md")
	if err != nil {
		t.Fatal(err)
	}
	for member := range s.members {
		if !strings.Contains(string(explained), "`"+member+"`") {
			t.Errorf("json.md does not list the member %s", member)
		}
	}
	const file = "commands.schema.json"
	if *update {
		if err := os.WriteFile(file, now, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(file); err != nil || string(old) != string(now) {
		t.Errorf("%s is not of the present columns (%v)", file, err)
	}
}

// formatRows matches the rows of the table of formats.
var formatRows = regexp.MustCompile("(?m)(^\\| [a-z]+ \\| `\\..*\\n)+")

// TestFormats holds that formats.md has the table of formats of package export. To write it
// anew: go test ./docs -run TestFormats -update
func TestFormats(t *testing.T) {
	t.Parallel()
	var now strings.Builder
	for _, f := range export.Formats() {
		fmt.Fprintf(&now, "| %v | `%s` |", f, strings.Join(f.Extensions(), "`, `"))
		holds := reflect.ValueOf(f.Holds())
		for i := range holds.NumField() {
			fmt.Fprintf(&now, " %v |", holds.Field(i))
		}
		now.WriteByte('\n')
	}
	holdRows(t, "formats.md", formatRows, now.String())
}

// TestQuestions holds that README.md has a row for each question about profiles. To write them anew:
// go test ./docs -run TestQuestions -update
func TestQuestions(t *testing.T) {
	t.Parallel()
	var commands strings.Builder
	var names []string
	for _, q := range view.Questions() {
		names = append(names, q.Name)
		fmt.Fprintf(&commands, "| `%s %s` | %s |\n", q.Name, q.Subject, strings.ToLower(q.Short[:1])+q.Short[1:])
	}
	rows := "(?m)(^\\| `(?:" + strings.Join(names, "|") + ") .*\\n)+"
	holdRows(t, "../README.md", regexp.MustCompile(rows), commands.String())
}

// holdRows holds that the first such rows of a page are those of now.
func holdRows(t *testing.T, page string, rows *regexp.Regexp, now string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	is := rows.FindString(string(text))
	switch {
	case is == now:
	case *update && is != "":
		if err := os.WriteFile(page, []byte(strings.Replace(string(text), is, now, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s has the rows\n%s\nand should have\n%s", page, is, now)
	}
}

// membersOf lists the members of an object whose keys begin alike. An object that is listed already stands as "{…}".
// The profile has a row of its own.
func membersOf(columns []view.Column, prefix string, listed map[string]bool) string {
	var all []string
	for _, c := range columns {
		key, is := strings.CutPrefix(c.Key, prefix)
		if !is || key == "" || strings.Contains(key, ".") || prefix == "" && key == "profile" {
			continue
		}
		before, after := " {", "}"
		inner := c.Key + "."
		switch c.Type {
		case "array":
			before, after, inner = " [{", "}]", c.Key+"[]."
		case "object":
		default:
			all = append(all, "`"+key+"`")
			continue
		}
		members, whole := "…", membersOf(columns, inner, nil)
		if !listed[whole] {
			members = membersOf(columns, inner, listed)
		}
		if listed != nil {
			listed[whole] = true
		}
		if members == "" {
			before, after = "", "" // a map
		}
		all = append(all, "`"+key+"`"+before+members+after)
	}
	text := strings.Join(all, ", ")
	for _, place := range []string{"`method`, `signature`, `file`, `line`, `position`", "`method`, `signature`, `file`, `line`"} {
		text = strings.ReplaceAll(text, place, "`method`…")
	}
	return text
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
	if profile, ok := members["profile"]; ok {
		s.defs["profile"], members["profile"] = profile, map[string]any{"$ref": "#/$defs/profile"}
	}
	return root
}

// ofType returns the schema of a type, whose fields have their names in the tag json and descriptions in the tag doc.
func (s schemas) ofType(t reflect.Type) map[string]any {
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.ofType(t.Elem())
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.ofType(t.Elem())}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Struct:
		object := map[string]any{"type": "object", "properties": map[string]any{}}
		s.addFields(object, t)
		return object
	}
	return map[string]any{"type": "integer"}
}

// addFields adds the fields of a struct, and of those that it embeds, to an object.
func (s schemas) addFields(object map[string]any, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			s.addFields(object, f.Type)
			continue
		}
		member, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		is := s.ofType(f.Type)
		if doc := f.Tag.Get("doc"); doc != "" {
			is["description"] = doc
		}
		object["properties"].(map[string]any)[member], s.members[member] = is, true
		if options == "" {
			required, _ := object["required"].([]string)
			object["required"] = append(required, member)
		}
	}
}

// schemas collects definitions, and the names of all members.
type schemas struct {
	defs    map[string]any
	members map[string]bool
}
