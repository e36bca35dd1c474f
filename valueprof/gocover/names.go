package gocover

import (
	"fmt"
	"strings"
)

// nameFunctions turns the names of cmd/cover into those of the runtime: "*T.Method"
// into "(*T).Method", the init functions of a package into "init.0", "init.1", and
// literals at package level, which cmd/cover calls by their position, into
// "init.func1".
func (p *Package) nameFunctions() {
	inits, literals := 0, 0
	pointers := make(map[string]string) // hostile files may refer to one long name often
	for i := range p.Functions {
		f := &p.Functions[i]
		switch {
		case f.literal:
			literals++
			f.Name = fmt.Sprintf("init.func%d", literals)
		case f.Name == "init":
			f.Name = fmt.Sprintf("init.%d", inits)
			inits++
		default:
			f.Receiver, f.Name = methodName(pointers, f.Name)
		}
	}
}

// methodName returns the receiver in a name of cmd/cover, and the runtime's name.
func methodName(pointers map[string]string, name string) (receiver, converted string) {
	receiver, method, isMethod := strings.Cut(name, ".")
	switch {
	case !isMethod:
		return "", name
	case !strings.HasPrefix(receiver, "*"):
		return receiver, name
	}
	converted, known := pointers[name]
	if !known {
		converted = "(" + receiver + ")." + method
		pointers[name] = converted
	}
	return receiver, converted
}

// Symbol returns the runtime's name of one of the package's functions.
func (p *Package) Symbol(f *Function) string { return p.prefix() + "." + f.Name }

// ReceiverType returns the qualified type of the receiver of one of the package's
// methods, "*net/http.conn"; "" for other functions.
func (p *Package) ReceiverType(f *Function) string {
	if f.Receiver == "" {
		return ""
	}
	name, pointer := strings.CutPrefix(f.Receiver, "*")
	if pointer {
		return "*" + p.prefix() + "." + name
	}
	return p.prefix() + "." + name
}

// prefix returns the package in the names of its functions: a program is "main", and
// some bytes of a path are escaped (cmd/internal/objabi, PathToPrefix, Go 1.26).
func (p *Package) prefix() string {
	if p.Name == "main" {
		return "main"
	}
	last := strings.LastIndexByte(p.Path, '/')
	var b strings.Builder
	for i := range len(p.Path) {
		c := p.Path[i]
		if c <= ' ' || c >= 0x7f || c == '%' || c == '"' || c == '.' && i > last {
			fmt.Fprintf(&b, "%%%02x", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
