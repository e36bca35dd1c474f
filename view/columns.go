package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// Column describes a figure or a name: it is a column of tables, a member of JSON, or both.
type Column struct {
	Name     string // of the column in tables, and for TextOptions.Columns; empty: in JSON only
	Key      string // of the member in JSON, after its parents: "methods[].flat.percent"; empty: in tables only
	Type     string // of the member, as JSON Schema calls it
	Unit     string // of a figure
	Optional bool   // the member may be missing: it is unknown, zero or empty
	Doc      string
}

// column is a Column with the way to its value in rows of a type.
type column[R any] struct {
	Column
	value   func(p *Profile, r R) any      // nil: the row has none
	members []Column                       // of an object, or of the objects in an array
	text    func(p *Profile, r R) string   // the cell in tables; nil: as units are printed
	fill    func(s *sheet, r R, row cells) // adds the cells of the members of an object; nil: it has none
}

// columns declare rows of a type once: for tables, for JSON and for its schema. They are in
// the order of the JSON.
type columns[R any] []column[R]

// Figures. Their types are their units.
type (
	weight      ccmap.Counters // the profile's unit: CPU time for example
	samples     int64
	activations int64
	count       int64
	percent     float64
	bits        float64
)

// MarshalJSON writes the weight alone.
func (w weight) MarshalJSON() ([]byte, error) { return strconv.AppendInt(nil, w.Time, 10), nil }

// units has the names of units, for the schema.
var units = map[reflect.Type]string{
	reflect.TypeFor[weight]():      "the profile's unit",
	reflect.TypeFor[samples]():     "samples",
	reflect.TypeFor[activations](): "calls",
	reflect.TypeFor[percent]():     "%",
	reflect.TypeFor[bits]():        "bits",
}

// cell prints a value in a table.
func (p *Profile) cell(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case weight:
		return p.measure.format(ccmap.Counters(v))
	case samples:
		return p.formatSamples(int64(v))
	case activations:
		return p.formatActivations(int64(v))
	case count:
		return figure.Count(int64(v))
	case percent:
		return figure.Percent(float64(v))
	case bits:
		return formatBits(float64(v))
	}
	return fmt.Sprint(value)
}

func formatBits(bits float64) string { return strconv.FormatFloat(bits, 'f', 2, 64) }

// col declares a column. The name is empty in JSON only, the key in tables only. A member
// whose key ends in ",omitempty" is left out where it is zero.
func col[R, V any](name, key, doc string, get func(*Profile, R) V) column[R] {
	t := reflect.TypeFor[V]()
	c := describe(key, doc, schemaType(t))
	c.Name, c.Unit = name, units[t]
	return column[R]{Column: c, value: func(p *Profile, r R) any { return get(p, r) }}
}

// printed returns a column whose cells in tables are made by another function than the
// member of JSON.
func (c column[R]) printed(text func(*Profile, R) string) column[R] {
	c.text = text
	return c
}

func (c column[R]) cell(p *Profile, r R) string {
	if c.text != nil {
		return c.text(p, r)
	}
	return p.cell(c.value(p, r))
}

// object declares a member that is an object. It is left out where get returns nil.
func object[R, S any](key, doc string, of columns[S], get func(*Profile, R) *S) column[R] {
	return column[R]{
		Column:  describe(key, doc, "object"),
		members: of.list(""),
		value: func(p *Profile, r R) any {
			if part := get(p, r); part != nil {
				return of.json(p, *part)
			}
			return nil
		},
		fill: func(s *sheet, r R, row cells) {
			if part := get(s.profile, r); part != nil {
				fill(s, of, *part, row)
			}
		},
	}
}

// array declares a member that is an array of objects. An optional one is left out where
// get returns nil.
func array[R, S any](key, doc string, of columns[S], get func(*Profile, R) []S) column[R] {
	c := describe(key, doc, "array")
	return column[R]{Column: c, members: of.list(""), value: func(p *Profile, r R) any {
		rows := get(p, r)
		if rows == nil && c.Optional {
			return nil
		}
		return of.jsonOf(p, rows)
	}}
}

// inline declares the columns of a part of a row as columns of the row. The part may be nil.
func inline[R, S any](of columns[S], get func(*Profile, R) *S) columns[R] {
	all := make(columns[R], len(of))
	for i, c := range of {
		all[i] = column[R]{Column: c.Column, members: c.members}
		all[i].value = func(p *Profile, r R) any {
			if part := get(p, r); part != nil {
				return c.value(p, *part)
			}
			return nil
		}
		all[i].text = func(p *Profile, r R) string {
			if part := get(p, r); part != nil {
				return c.cell(p, *part)
			}
			return ""
		}
	}
	return all
}

// named returns columns with other names in tables, "" for columns that are in JSON only.
func (cs columns[R]) named(names ...string) columns[R] {
	all := slices.Clone(cs)
	for i, name := range names {
		all[i].Name = name
	}
	return all
}

func describe(key, doc, schemaType string) Column {
	key, optional := strings.CutSuffix(key, ",omitempty")
	return Column{Key: key, Type: schemaType, Optional: optional, Doc: doc}
}

// schemaType returns the name that JSON Schema has for a type.
func schemaType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaType(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return schemaType(t.Elem()) + "[]"
	case reflect.Map:
		return "object"
	}
	if t == reflect.TypeFor[time.Time]() {
		return "string"
	}
	return "integer"
}

// list returns the columns and their members, each after the keys of its parents.
func (cs columns[R]) list(parent string) []Column {
	var all []Column
	for _, c := range cs {
		own := c.Column
		if own.Key != "" {
			own.Key = parent + own.Key
		}
		all = append(all, own)
		prefix := own.Key + "."
		if own.Type == "array" {
			prefix = own.Key + "[]."
		}
		for _, m := range c.members {
			if m.Key != "" {
				m.Key = prefix + m.Key
			}
			all = append(all, m)
		}
	}
	return all
}

// members are the members of an object of JSON, in their order.
type members []member

type member struct {
	key   string
	value any
}

// json returns a row as an object of JSON.
func (cs columns[R]) json(p *Profile, r R) members {
	var o members
	for _, c := range cs {
		if c.Key == "" {
			continue
		}
		value := c.value(p, r)
		if value == nil || c.Optional && isEmpty(value) {
			continue
		}
		o = append(o, member{c.Key, value})
	}
	return o
}

// jsonOf returns rows as an array of JSON, which is never null.
func (cs columns[R]) jsonOf(p *Profile, rows []R) []members {
	list := make([]members, len(rows))
	for i, r := range rows {
		list[i] = cs.json(p, r)
	}
	return list
}

// isEmpty reports whether an optional member says nothing. An empty array says something:
// there is one.
func isEmpty(value any) bool { return reflect.ValueOf(value).IsZero() }

// MarshalJSON writes the members in their order.
func (o members) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // the writer of the whole decides
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(m.key) + ":")
		if err := enc.Encode(m.value); err != nil {
			return nil, fmt.Errorf("marshal %s: %w", m.key, err)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Layout says how a list can be shown.
type Layout struct {
	Orders  []string // for List.Order; the first is the default
	First   []string // names of the columns that text has if none are chosen, in order
	All     []string // names of all columns, in the order of tables
	Columns []Column // in the order of JSON
}

// words splits names of columns.
func words(names string) []string { return strings.Fields(names) }

// order returns the order that a list asks for.
func (l Layout) order(list List) (string, error) {
	switch {
	case list.Order == "":
		return l.Orders[0], nil
	case !slices.Contains(l.Orders, list.Order):
		return "", fmt.Errorf("there is no order %q: take %s", list.Order, terminal.OrList(l.Orders))
	}
	return list.Order, nil
}

// Find returns the names of some columns as the layout has them: in lower case or not, with
// spaces or hyphens. The error lists the columns that there are.
func (l Layout) Find(names []string) ([]string, error) {
	var found []string
	for _, name := range names {
		wanted := strings.ReplaceAll(strings.TrimSpace(name), " ", "-")
		i := slices.IndexFunc(l.All, func(known string) bool { return strings.EqualFold(known, wanted) })
		if i < 0 {
			return nil, fmt.Errorf("there is no column %q: take %s", name, terminal.OrList(l.All))
		}
		found = append(found, l.All[i])
	}
	return found, nil
}

// sheet is a table with some of the columns of a layout.
type sheet struct {
	terminal.Table
	profile *Profile
	names   []string // of its columns
}

// newSheet returns a table with the columns that the options choose.
func newSheet(p *Profile, l Layout, o TextOptions) (*sheet, error) {
	names := l.First
	if o.All {
		names = l.All
	}
	if len(o.Columns) > 0 {
		var err error
		if names, err = l.Find(o.Columns); err != nil {
			return nil, err
		}
	}
	s := &sheet{profile: p, names: names}
	for _, name := range names {
		c := tableColumn(name)
		if len(o.Columns) > 0 {
			c.Drop = 0
		}
		s.Columns = append(s.Columns, c)
	}
	return s, nil
}

// title gives a column another title than its name.
func (s *sheet) title(name, title string) {
	if i := slices.Index(s.names, name); i >= 0 {
		s.Columns[i].Title = title
	}
}

// cells are the cells of a row, by the names of their columns.
type cells map[string]string

// cellsOf prints a row in the columns of a sheet.
func cellsOf[R any](s *sheet, cs columns[R], r R) cells {
	row := cells{}
	fill(s, cs, r, row)
	return row
}

func fill[R any](s *sheet, cs columns[R], r R, row cells) {
	for _, c := range cs {
		if c.fill != nil {
			c.fill(s, r, row)
		}
		if c.Name != "" && slices.Contains(s.names, c.Name) {
			row[c.Name] = c.cell(s.profile, r)
		}
	}
}

// addRow adds a row of some type to a sheet.
func addRow[R any](s *sheet, cs columns[R], r R) { s.add(cellsOf(s, cs, r)) }

// add adds a row. Cells without a column are left out, columns without a cell stay empty.
func (s *sheet) add(row cells) {
	line := make([]string, len(s.names))
	for i, name := range s.names {
		line[i] = row[name]
	}
	s.Add(line...)
}

// drops ranks the columns that a narrow terminal has no room for, the highest first.
var drops = map[string]int{
	"location": 5, "activations": 4, "of-all": 4, "samples": 3, "samples-A": 3, "samples-B": 3,
	"origin": 2, "recent%": 2, "calls": 1, "of-calls": 1, "share": 0, "p": 1,
}

// tableColumn returns how the column of a name looks.
func tableColumn(name string) terminal.Column {
	c := terminal.Column{Title: strings.ReplaceAll(name, "-", " "), Drop: drops[name]}
	switch name {
	case "method", "call-site", "context", "path", "point", "item":
		c.Shorten, c.Least = terminal.ShortenMethod, 34
	case "location":
		c.Shorten, c.Least = terminal.ShortenLocation, 16
	case "verdict":
		c.Shorten, c.Least = terminal.ShortenMiddle, 24
	case "targets", "kind", "origin", "by":
	default:
		c.Right = true
	}
	return c
}
