package gosym

import "strings"

// receiver returns the receiver type of a method from its symbol name:
// "net/http.(*conn).serve" gives "*net/http.conn", "time.Time.String" gives
// "time.Time". It is empty for functions and for closures, also those in
// methods.
func receiver(name string) string {
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

// cutPackage splits a symbol name at the dot behind its package path. A dot in
// the path's last element is written %2e, and type arguments, which can hold
// paths, come later.
func cutPackage(name string) (pkg, local string, ok bool) {
	path := outsideBrackets(name)
	slash := strings.LastIndexByte(path, '/') + 1
	dot := strings.IndexByte(name[slash:], '.')
	if dot < 0 {
		return "", "", false
	}
	return name[:slash+dot], name[slash+dot+1:], true
}

// outsideBrackets returns what stands before the type arguments.
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
