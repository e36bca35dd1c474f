package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

type weekday uint8

var weekdays = []string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}

func (d weekday) String() string { return weekdays[d] }

// rights is a set of flags.
type rights uint16

var rightNames = []string{"Read", "Write", "Execute", "List", "Delete", "Share", "Own"}

func (r rights) String() string {
	var names []string
	for i, name := range rightNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "None"
	}
	return strings.Join(names, ", ")
}

// enums knows enumerations by their type, as .NET's Enum does. All threads use it.
type enums struct {
	byType sync.Map // reflect.Type: enumType
}

// enumType describes an enumeration.
type enumType struct {
	names  []string
	values map[string]uint64 // by the name in lower case
	flags  bool
}

func (t enumType) value(i int) uint64 {
	if t.flags {
		return 1 << i
	}
	return uint64(i)
}

// of returns the enumeration of a value. Like .NET's, it is made at its first use.
func (e *enums) of(v any) (enumType, error) {
	key := reflect.TypeOf(v)
	if known, ok := e.byType.Load(key); ok {
		return known.(enumType), nil
	}
	t := enumType{values: make(map[string]uint64)}
	switch v.(type) {
	case weekday:
		t.names = weekdays
	case rights:
		t.names, t.flags = rightNames, true
	default:
		return t, fmt.Errorf("%v is not an enumeration", key)
	}
	for i, name := range t.names {
		t.values[strings.ToLower(name)] = t.value(i)
	}
	e.byType.Store(key, t)
	return t, nil
}

// format has the formats of .NET: G the name, D decimal, X hexadecimal.
func (e *enums) format(v any, format byte) (string, error) {
	if _, err := e.of(v); err != nil {
		return "", err
	}
	x := reflect.ValueOf(v)
	switch format {
	case 'G':
		return x.MethodByName("String").Call(nil)[0].String(), nil
	case 'D':
		return strconv.FormatUint(x.Uint(), 10), nil
	case 'X':
		return fmt.Sprintf("%0*X", 2*x.Type().Size(), x.Uint()), nil
	}
	return "", fmt.Errorf("no format %q", format)
}

// parse stores the value of text into the enumeration that into points to.
func (e *enums) parse(text string, into any) error {
	to := reflect.ValueOf(into).Elem()
	t, err := e.of(to.Interface())
	if err != nil {
		return err
	}
	if n, err := strconv.ParseUint(text, 10, to.Type().Bits()); err == nil {
		to.SetUint(n)
		return nil
	}
	var sum uint64
	for _, name := range strings.Split(text, ",") {
		v, ok := t.values[strings.ToLower(strings.TrimSpace(name))]
		if !ok && name != "None" {
			return fmt.Errorf("no value %q in %v", name, to.Type())
		}
		sum |= v
	}
	to.SetUint(sum)
	return nil
}

// openEnums returns the check of an empty table.
func openEnums() check { return new(enums).check }

func (e *enums) check(r *rand.Rand) error {
	for range 12 {
		a, b := weekday(r.IntN(len(weekdays))), weekday(r.IntN(len(weekdays)))
		x, y := rights(r.IntN(1<<len(rightNames))), rights(r.IntN(1<<len(rightNames)))
		err := first(
			checkEnum(e, a), checkEnum(e, x),
			checkBoxes(enum[weekday]{a}, enum[weekday]{b}, cmp.Compare(a, b)),
			checkBoxes(enum[rights]{x}, enum[rights]{y}, cmp.Compare(x, y)),
		)
		if err != nil {
			return fmt.Errorf("%v, %v, %v, %v: %w", a, b, x, y, err)
		}
	}
	return first(e.checkNames(weekday(0)), e.checkNames(rights(0)), e.checkUnknown())
}

// enumeration lists the enumerations.
type enumeration interface {
	weekday | rights
	fmt.Stringer
}

// checkEnum converts through all formats and JSON.
func checkEnum[T enumeration](e *enums, v T) error {
	for _, format := range []byte("GD") {
		text, err := e.format(v, format)
		if err != nil {
			return err
		}
		var back T
		if err := first(e.parse(text, &back), same("parse "+text, back, v)); err != nil {
			return err
		}
	}
	hex, err := e.format(v, 'X')
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(hex, 16, 16)
	encoded, jsonError := json.Marshal(map[string]any{"name": v.String(), "value": v})
	return first(err, jsonError,
		same("hexadecimal", T(n), v),
		same("JSON", string(encoded), fmt.Sprintf(`{"name":%q,"value":%d}`, v, v)))
}

// checkNames parses the type's names, in upper and lower case.
func (e *enums) checkNames(v any) error {
	t, err := e.of(v)
	if err != nil {
		return err
	}
	names := slices.Clone(t.names)
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(strings.ToLower(a), strings.ToLower(b)) })
	for _, name := range names {
		into := reflect.New(reflect.TypeOf(v))
		if err := e.parse(strings.ToUpper(name), into.Interface()); err != nil {
			return err
		}
		if err := same("name", fmt.Sprint(into.Elem()), name); err != nil {
			return err
		}
	}
	return nil
}

// checkUnknown parses texts that are not values, and asks for types that are not
// enumerations.
func (e *enums) checkUnknown() error {
	var d weekday
	_, err := e.of(42)
	return first(
		same("unknown name", e.parse("Someday", &d) != nil, true),
		same("unknown type", err != nil, true))
}

// enum is a boxed enumeration.
type enum[T enumeration] struct{ value T }

func (x enum[T]) String() string { return x.value.String() }
func (x enum[T]) Hash() uint64   { return reflect.ValueOf(x.value).Uint() }

func (x enum[T]) Equals(other any) bool {
	o, ok := other.(enum[T])
	return ok && reflect.DeepEqual(o, x)
}

func (x enum[T]) CompareTo(other any) (int, error) {
	o, ok := other.(enum[T])
	if !ok {
		return 0, fmt.Errorf("compare %T with %T: %w", x, other, errType)
	}
	return cmp.Compare(x.value, o.value), nil
}
