package starlark

import (
	"strconv"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/ccmapd/ccmapd/ccmap"
)

// methods maps a thread's callables to ids of a table. It belongs to the thread.
type methods struct {
	names     *ccmap.Names
	functions map[declaration]ccmap.MethodID
	builtins  map[builtin]ccmap.MethodID
}

// declaration identifies a function or lambda of the language. Its value does not
// identify it: each evaluation of the def or lambda makes another value.
type declaration struct {
	file, name   string
	line, column int32
}

// builtin identifies a function of the host.
type builtin struct{ receiver, name string }

func newMethods(names *ccmap.Names) methods {
	return methods{
		names:     names,
		functions: make(map[declaration]ccmap.MethodID),
		builtins:  make(map[builtin]ccmap.MethodID),
	}
}

// of returns the method of the callable.
func (m *methods) of(callable starlark.Callable) ccmap.MethodID {
	switch c := callable.(type) {
	case *starlark.Function:
		return m.function(c)
	case *starlark.Builtin:
		return m.builtin(builtin{receiverType(c), c.Name()})
	}
	return m.builtin(builtin{callable.Type(), callable.Name()})
}

func receiverType(b *starlark.Builtin) string {
	if receiver := b.Receiver(); receiver != nil {
		return receiver.Type()
	}
	return ""
}

func (m *methods) function(f *starlark.Function) ccmap.MethodID {
	position := f.Position()
	d := declaration{position.Filename(), f.Name(), position.Line, position.Col}
	id, ok := m.functions[d]
	if !ok {
		id = m.declare(d)
		m.names.SetBody(id, bodyOf(f))
		m.functions[d] = id
	}
	return id
}

// declare interns a function under a unique name. File and own name are unique at top
// level, in the first column, unless files share a name or globals are assigned twice.
func (m *methods) declare(d declaration) ccmap.MethodID {
	method := ccmap.Method{Name: d.file + ":" + d.name, File: d.file, StartLine: d.line}
	if d.column > 1 && d.name != toplevel {
		method.Name += d.position()
	}
	id := m.names.Intern(method)
	if m.names.At(id).StartLine == d.line {
		return id
	}
	method.Name = d.file + ":" + d.name + d.position()
	return m.names.Intern(method)
}

// toplevel is the interpreter's function name of a file.
const toplevel = "<toplevel>"

func (d declaration) position() string {
	return "@" + strconv.Itoa(int(d.line)) + ":" + strconv.Itoa(int(d.column))
}

func (m *methods) builtin(b builtin) ccmap.MethodID {
	id, ok := m.builtins[b]
	if !ok {
		id = m.names.Intern(b.method())
		m.builtins[b] = id
	}
	return id
}

// method describes the builtin. For a host's own callable, the type stands for the
// receiver.
func (b builtin) method() ccmap.Method {
	name := b.name
	if name == "" {
		name = ccmap.UnknownName
	}
	if b.receiver != "" {
		name = b.receiver + "." + name
	}
	return ccmap.Method{Name: name, Receiver: b.receiver}
}

// offset returns the position in the function, in lines from its declaration.
// Functions of the host have none.
func offset(callable starlark.Callable, position syntax.Position) uint32 {
	f, ok := callable.(*starlark.Function)
	if !ok || position.Line == 0 {
		return ccmap.NoOffset
	}
	return uint32(position.Line - f.Position().Line)
}
