package gopgo

import (
	"errors"
	"slices"
	"strings"
)

// Program says what functions of a program call, as [Binary] and [Source] read it. It is immutable.
type Program struct {
	From      string // the path that was read
	Go        string // version of Go; "" where it is not known
	functions map[string]*function
	bodies    map[string]uint64   // by name; of binaries
	same      map[uint64]string   // the one function with a body, "" if several have it; nil: not read
	packages  map[string]bool     // of a source: those that were read; nil: all
	unread    func(e Edge) string // why a program cannot tell of an edge, "": it can; nil: always
}

// Errors of programs.
var (
	// ErrOtherProgram: none of the profile's own functions is in the program.
	ErrOtherProgram = errors.New("the profile is of another program")
	// ErrNoLines: the binary does not say where functions begin.
	ErrNoLines = errors.New("the binary does not say on which lines its functions begin")
)

// function is a function with its calls.
type function struct{ calls []site }

// site is a place of a program that calls something.
type site struct {
	offset uint32 // in lines from the function's first
	callee string // plain, see plainName; "" for some kinds
	kind   callKind
}

// callKind says what is known of a callee.
type callKind uint8

const (
	named     callKind = iota // it is the callee
	byLast                    // the callee's last name is known: a method's, in a source
	anything                  // it can be any function: a function value, or an interface's method in a binary
	ofRuntime                 // it can be any function of the runtime: growing the stack, say
)

// reach says how surely a call reaches a callee.
type reach uint8

const (
	never reach = iota
	maybe
	surely
)

// reaches says whether a call reaches a callee, whose name is plain.
func (c site) reaches(callee string) reach {
	switch c.kind {
	case named:
		if c.callee == callee {
			return surely
		}
	case byLast:
		if c.callee == lastName(callee) {
			return surely
		}
	case ofRuntime:
		if packageOf(callee) == "runtime" || !strings.Contains(callee, ".") {
			return maybe
		}
	case anything:
		return maybe
	}
	return never
}

// at returns how surely a function reaches a callee on a line.
func (f *function) at(offset uint32, callee string) reach {
	best := never
	for _, c := range f.calls {
		if c.offset == offset {
			best = max(best, c.reaches(callee))
		}
	}
	return best
}

// lines returns the lines, in order, on which a function reaches a callee so surely.
func (f *function) lines(callee string, how reach) (offsets []uint32) {
	for _, c := range f.calls {
		if c.kind != ofRuntime && c.reaches(callee) == how {
			offsets = append(offsets, c.offset)
		}
	}
	slices.SortFunc(offsets, func(a, b uint32) int { return int(int32(a)) - int(int32(b)) })
	return slices.Compact(offsets)
}

// add adds a call, once.
func (p *Program) add(caller string, c site) {
	f := p.function(caller)
	if !slices.Contains(f.calls, c) {
		f.calls = append(f.calls, c)
	}
}

// function returns a function, which it adds if it is new.
func (p *Program) function(name string) *function {
	f := p.functions[name]
	if f == nil {
		f = new(function)
		p.functions[name] = f
	}
	return f
}

// plainName returns the name of a function with "[...]" in place of type arguments, as runtime/pprof has it.
func plainName(name string) string {
	if !strings.Contains(name, "[") {
		return name
	}
	var plain strings.Builder
	depth := 0
	for _, r := range name {
		switch r {
		case '[':
			if depth++; depth == 1 {
				plain.WriteString("[...]")
			}
		case ']':
			depth = max(depth-1, 0)
		default:
			if depth == 0 {
				plain.WriteRune(r)
			}
		}
	}
	return plain.String()
}

// packageOf returns the path of the package of a function.
func packageOf(name string) string {
	pkg, _ := splitName(name)
	return strings.ReplaceAll(pkg, "%2e", ".")
}

// splitName splits a function's name into the package, as symbols have it, and the name there; "" if it has none.
func splitName(name string) (pkg, local string) {
	plain, _, _ := strings.Cut(name, "[")
	slash := strings.LastIndexByte(plain, '/') + 1
	if dot := strings.IndexByte(plain[slash:], '.'); dot >= 0 {
		return name[:slash+dot], name[slash+dot+1:]
	}
	return "", ""
}

// isStandard reports whether a package is one of Go itself: the first element of all other paths has a dot,
// but for those of programs that nobody imports, as "main".
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	isMade := strings.Contains(path, ":") // by the compiler, as "type:.eq.p"
	return path == "" || isMade || !strings.Contains(first, ".") && first != "main"
}
