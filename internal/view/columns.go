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

// col declares a column. The name is empty in JSON only, the key in tables only. A member
// whose key ends in ",omitempty" is left out where it is zero.
func col[R, V any](name, key, doc string, get func(R) V) column[R] {
	return colIn(name, key, doc, func(_ *Profile, r R) V { return get(r) })
}

// colIn declares a column that depends on the profile, too.
func colIn[R, V any](name, key, doc string, get func(*Profile, R) V) column[R] {
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

// given returns a part of a row, or nil if the row lacks it.
func given[T any](part T, is bool) *T {
	if !is {
		return nil
	}
	return &part
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
	switch kind := t.Kind(); {
	case t == reflect.TypeFor[time.Time](), kind == reflect.String:
		return "string"
	case kind == reflect.Pointer:
		return schemaType(t.Elem())
	case kind == reflect.Slice:
		return schemaType(t.Elem()) + "[]"
	case kind == reflect.Bool:
		return "boolean"
	case kind == reflect.Float64:
		return "number"
	case kind == reflect.Map:
		return "object"
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

// layout returns a layout with names of columns in a text.
func layout(first, all string, columns []Column, orders ...string) Layout {
	return Layout{orders, strings.Fields(first), strings.Fields(all), columns}
}

// order returns the order that a list asks for.
func (l Layout) order(list List) (string, error) {
	switch {
	case list.Order == "":
		return l.Orders[0], nil
	case !slices.Contains(l.Orders, list.Order):
		return "", &Error{Code: CodeUsage, Err: fmt.Errorf("there is no order %q: take %s", list.Order, terminal.OrList(l.Orders))}
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
