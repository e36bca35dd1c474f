package jfr

import (
	"encoding/binary"
	"strconv"
)

// testField is a field of a test's type: its name, its type, and its attributes.
type testField struct {
	name, of        string
	constant, array bool
	unit            string // "TICKS"; empty: none
}

// testType is a type of a test's chunk; its id is its place in the list, plus 2.
type testType struct {
	name   string
	fields []testField
}

// testTypes are the types of a small recording, as JDK 17 describes them.
var testTypes = []testType{
	{name: "boolean"}, {name: "int"}, {name: "long"}, {name: "float"}, {name: "java.lang.String"},
	{name: "jdk.jfr.Timespan", fields: []testField{{name: "value", of: "java.lang.String"}}},
	{"jdk.types.Symbol", []testField{{name: "string", of: "java.lang.String"}}},
	{"java.lang.Class", []testField{{name: "name", of: "jdk.types.Symbol", constant: true}}},
	{"jdk.types.Method", []testField{
		{name: "type", of: "java.lang.Class", constant: true}, {name: "name", of: "jdk.types.Symbol", constant: true},
		{name: "descriptor", of: "jdk.types.Symbol", constant: true}, {name: "modifiers", of: "int"},
	}},
	{"jdk.types.StackFrame", []testField{
		{name: "method", of: "jdk.types.Method", constant: true}, {name: "lineNumber", of: "int"}, {name: "bytecodeIndex", of: "int"},
	}},
	{"jdk.types.StackTrace", []testField{{name: "truncated", of: "boolean"}, {name: "frames", of: "jdk.types.StackFrame", array: true}}},
	{"java.lang.Thread", []testField{{name: "javaName", of: "java.lang.String"}, {name: "osThreadId", of: "long"}}},
	{"jdk.ExecutionSample", []testField{
		{name: "startTime", of: "long", unit: "TICKS"}, {name: "sampledThread", of: "java.lang.Thread", constant: true},
		{name: "stackTrace", of: "jdk.types.StackTrace", constant: true},
	}},
	{"jdk.JavaMonitorEnter", []testField{
		{name: "startTime", of: "long", unit: "TICKS"}, {name: "duration", of: "long", unit: "TICKS"},
		{name: "eventThread", of: "java.lang.Thread", constant: true}, {name: "stackTrace", of: "jdk.types.StackTrace", constant: true},
	}},
	{"jdk.ActiveSetting", []testField{
		{name: "id", of: "long"}, {name: "name", of: "java.lang.String"}, {name: "value", of: "java.lang.String"},
	}},
	{"test.Empty", nil},
	{"test.Odd", []testField{
		{name: "nothing", of: "test.Empty", array: true}, {name: "after", of: "int"},
	}},
	{"test.Self", []testField{{name: "self", of: "test.Self"}, {name: "again", of: "test.Self"}}},
}

func typeID(name string) uint64 {
	for i, t := range testTypes {
		if t.name == name {
			return uint64(i + 2)
		}
	}
	panic(name)
}

// numbers encodes numbers, and texts as UTF-8.
func numbers(values ...any) []byte {
	var b []byte
	for _, v := range values {
		switch v := v.(type) {
		case int:
			b = appendVarint(b, uint64(v))
		case uint64:
			b = appendVarint(b, v)
		case string:
			b = append(appendVarint(append(b, textUTF8), uint64(len(v))), v...)
		case []byte:
			b = append(b, v...)
		}
	}
	return b
}

func appendVarint(b []byte, v uint64) []byte {
	for range longestVarint - 1 {
		if v < 0x80 {
			return append(b, byte(v))
		}
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// event encodes an event. Its size has four bytes, as the JDK's writers pad it.
func event(id uint64, fields ...any) []byte {
	body := append(numbers(id), numbers(fields...)...)
	size := len(body) + 4
	return append([]byte{byte(size) | 0x80, byte(size>>7) | 0x80, byte(size>>14) | 0x80, byte(size >> 21)}, body...)
}

// metadata encodes the description of the types.
func metadata() []byte {
	var texts []string
	index := func(s string) int {
		for i, t := range texts {
			if t == s {
				return i
			}
		}
		texts = append(texts, s)
		return len(texts) - 1
	}
	element := func(name string, attributes []string, children ...[]byte) []byte {
		b := numbers(index(name), len(attributes)/2)
		for _, a := range attributes {
			b = append(b, numbers(index(a))...)
		}
		b = append(b, numbers(len(children))...)
		for _, c := range children {
			b = append(b, c...)
		}
		return b
	}
	decimal := func(name string) string { return strconv.FormatUint(typeID(name), 10) }
	var classes [][]byte
	for _, t := range testTypes {
		var fields [][]byte
		for _, f := range t.fields {
			a := []string{"name", f.name, "class", decimal(f.of)}
			if f.constant {
				a = append(a, "constantPool", "true")
			}
			if f.array {
				a = append(a, "dimension", "1")
			}
			var annotations [][]byte
			if f.unit != "" {
				annotations = append(annotations, element("annotation", []string{"class", decimal("jdk.jfr.Timespan"), "value", f.unit}))
			}
			fields = append(fields, element("field", a, annotations...))
		}
		classes = append(classes, element("class", []string{"name", t.name, "id", decimal(t.name)}, fields...))
	}
	root := element("root", nil, element("metadata", nil, classes...), element("region", nil))
	body := numbers(0, 0, 1, len(texts))
	for _, t := range texts {
		body = append(body, numbers(t)...)
	}
	return event(metadataEvent, append(body, root...))
}

// checkpoint encodes constants: of each type, keys and values.
func checkpoint(pools ...[]byte) []byte {
	body := append(numbers(0, 0, 0), 0)
	body = append(body, numbers(len(pools))...)
	for _, p := range pools {
		body = append(body, p...)
	}
	return event(checkpointEvent, body)
}

func pool(name string, count int, keysAndValues ...any) []byte {
	return append(numbers(typeID(name), count), numbers(keysAndValues...)...)
}

// chunk puts a header before events.
func chunk(events ...[]byte) []byte {
	b := make([]byte, HeaderSize)
	copy(b, Magic)
	binary.BigEndian.PutUint16(b[4:], 2)
	binary.BigEndian.PutUint64(b[32:], 1e18)
	binary.BigEndian.PutUint64(b[40:], 5e9)
	binary.BigEndian.PutUint64(b[56:], 1e6) // a tick is a µs
	b[67] = flagCompressed
	for _, e := range events {
		b = append(b, e...)
	}
	binary.BigEndian.PutUint64(b[8:], uint64(len(b)))
	return b
}

// constants are those of the small recording: two stacks of Main.main and Main.run.
func constants() []byte {
	minus := uint64(1<<64 - 1)
	return checkpoint(
		pool("jdk.types.Symbol", 5, 1, "Main", 2, "main", 3, "run", 4, "()V", 5, []byte{textConstant, 1}),
		pool("java.lang.String", 1, 1, []byte{textLatin1, 2, 'w', 0xe9}),
		pool("java.lang.Class", 1, 1, 1),
		pool("jdk.types.Method", 2, 1, 1, 2, 4, accStatic, 2, 1, 3, 4, accNative),
		pool("jdk.types.StackTrace", 2,
			1, []byte{0}, 2, numbers(2, minus, minus), numbers(1, 12, 7),
			2, []byte{1}, 1, numbers(1, 13, 9)),
		pool("java.lang.Thread", 1, 1, []byte{textChars, 2, 'w', '1'}, 77),
	)
}

// recording is the small recording: three samples and a wait for a lock of 5 ms.
func recording() []byte {
	sample := typeID("jdk.ExecutionSample")
	return chunk(
		event(sample, 10, 1, 1), // constants may come after
		metadata(), constants(),
		event(typeID("jdk.ActiveSetting"), sample, "period", "10 ms"),
		event(sample, 11, 1, 1),
		event(sample, 12, 1, 2),
		event(typeID("jdk.JavaMonitorEnter"), 13, 5000, 1, 2),
		event(99, "of no known type"),
	)
}
