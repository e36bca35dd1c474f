package gosym

import "strings"

// receiver returns the receiver type of a method from its symbol name:
// "net/http.(*conn).serve" gives "*net/http.conn", "time.Time.String" gives
// "time.Time". It is empty for functions and for closures, also those in
// methods.
//
// The type is the one that the code was compiled for, which need not be the one
// that the caller has:
//
//   - A promoted method is compiled once, for the type that is embedded. Only its
//     wrapper, which samples leave out, names the type that embeds it, an unnamed
//     struct perhaps: "go:(*struct { *main.T }).M", up to Go 1.19 "go.(*struct { *main.T }).M".
//   - A generic method is compiled for all type arguments of one shape, and its
//     name says so: "*main.Stack[go.shape.int]". Only its wrapper, which
//     knows the dictionary, names the type: "*main.Stack[int]".
//   - A type declared in a function has a number in its name: "main.T·1".
func receiver(name string) string {
	if rest, ok := cutUnnamed(name); ok {
		return unnamedReceiver(rest)
	}
	pkg, local, ok := cutPackage(strings.TrimSuffix(name, "-fm"))
	if !ok {
		return ""
	}
	typ, method, ok := cutLast(local)
	if !ok || typ == "" || generated(method) {
		return ""
	}
	if p, ok := strings.CutPrefix(typ, "(*"); ok {
		typ, ok = strings.CutSuffix(p, ")")
		if !ok {
			return ""
		}
		return "*" + pkg + "." + typ
	}
	if strings.ContainsAny(outsideBrackets(typ), ".()") {
		return ""
	}
	return pkg + "." + typ
}

// cutUnnamed cuts what the compiler puts before an unnamed type: "go:" or, up to Go 1.19, "go.".
func cutUnnamed(name string) (typ string, ok bool) {
	if rest, ok := strings.CutPrefix(name, "go:"); ok {
		return rest, true
	}
	rest, ok := strings.CutPrefix(name, "go.")
	return rest, ok && (strings.HasPrefix(rest, "struct {") || strings.HasPrefix(rest, "(*struct {"))
}

// unnamedReceiver returns the receiver type of a wrapper for an unnamed struct,
// from the text after "go:". The method of another package has its path
// before it: "(*struct { *main.T }).main.m".
func unnamedReceiver(local string) string {
	typ := local[:strings.LastIndexByte(local, '}')+1]
	if p, ok := strings.CutPrefix(typ, "(*"); ok {
		return "*" + p
	}
	return typ
}

// cutPackage splits a symbol name at the dot after its package path. A dot in
// the path's last element is written %2e, and type arguments, which can hold
// paths, come later.
func cutPackage(name string) (pkg, local string, ok bool) {
	// Functions that compare and hash values of a type; up to Go 1.19 they have the second prefix.
	if strings.HasPrefix(name, "type:") || strings.HasPrefix(name, "type..") {
		return "", "", false
	}
	path := outsideBrackets(name)
	slash := strings.LastIndexByte(path, '/') + 1
	dot := strings.IndexByte(name[slash:], '.')
	if dot < 0 {
		return "", "", false
	}
	return name[:slash+dot], name[slash+dot+1:], true
}

// outsideBrackets returns the text before the type arguments.
func outsideBrackets(name string) string {
	if i := strings.IndexByte(name, '['); i >= 0 {
		return name[:i]
	}
	return name
}

// cutLast splits "T[args].M" or "(*T[args]).M" at the dot before the method.
func cutLast(local string) (typ, method string, ok bool) {
	depth := 0
	for i := len(local) - 1; i >= 0; i-- {
		switch local[i] {
		case ']':
			depth++
		case '[':
			depth--
		case '.':
			if depth == 0 {
				return local[:i], local[i+1:], true
			}
		}
	}
	return "", "", false
}

// generated says whether the last part of a name was made by the compiler:
// func1, gowrap2, deferwrap1, a bare number, or f-range3.
func generated(part string) bool {
	for _, prefix := range []string{"func", "gowrap", "deferwrap", ""} {
		if rest, ok := strings.CutPrefix(part, prefix); ok && digits(rest) {
			return true
		}
	}
	return strings.Contains(part, "-range")
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
