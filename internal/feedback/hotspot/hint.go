package hotspot

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/fanin"
)

// MostDecompiles is how often the JVM may throw away C2's code of a method that has hints, counted from
// the JVM's start. A method that gets there is one that hints do not help. The JVM's own limit is
// 400 (-XX:PerMethodRecompilationCutoff): then C2 does not compile the method any more.
const MostDecompiles = 10

// Action is what a hint asks for.
type Action string

// The actions.
const (
	Inline  Action = "inline"   // inline the callee, whatever the compiler's own rules say
	KeepOut Action = "keep out" // do not inline the callee
)

// Hint asks for one thing in all compilations of one method.
type Hint struct {
	Action       Action  `json:"action"`   // inline or keep out
	Callee       Method  `json:"callee"`   // one word: java.util.HashMap.get(Ljava/lang/Object;)Ljava/lang/Object;
	Caller       Method  `json:"caller"`   // of the callee, in the code of the root
	Bytecode     int32   `json:"bytecode"` // index of the call in the caller
	Root         Method  `json:"root"`     // the method whose compilations the hint is for
	Share        float64 `json:"share"`    // percent of the profile's weight that the call has below the root
	Saves        float64 `json:"saves"`    // percent of the weight that the hints of this reason can save at most: the own time of methods that are inlined or reached
	Reason       string  `json:"reason"`
	ThrownBefore int64   `json:"thrown_before"` // how often the JVM had thrown away C2's code of the root when the profile was taken

	Shared *fanin.Called `json:"shared,omitempty"` // from where the callee is called, if a shared source knows it better
}

// Callees returns the methods that hints are about, as a source of fan-in knows them.
func Callees(hints []Hint) []fanin.Key { return keysOf(hints, func(h Hint) Method { return h.Callee }) }

func keysOf[T any](of []T, method func(T) Method) (keys []fanin.Key) {
	for _, one := range of {
		keys = append(keys, method(one).Key())
	}
	return keys
}

// Share notes from where the callees of hints are called, where a shared source knows it better.
func Share(hints []Hint, called []fanin.Called) {
	for i, h := range hints {
		hints[i].Shared = calledOf(h.Callee, called)
	}
}

// calledOf returns what a shared source knows better of a method; nil: nothing.
func calledOf(m Method, called []fanin.Called) *fanin.Called {
	for _, c := range called {
		if (fanin.Key{Name: c.Method, Signature: c.Signature}) == m.Key() {
			return &c
		}
	}
	return nil
}

// Method names a method as the compiler's patterns do. As text it is one word:
// "java.util.HashMap.get(Ljava/lang/Object;)Ljava/lang/Object;".
type Method struct {
	Class      string // with dots
	Name       string
	Descriptor string
}

// errPattern says why a method has no pattern.
var errPattern = errors.New("no pattern of the compiler means this method alone")

// Runs reports whether a target runs on HotSpot, by the text of its runtime: "OpenJDK 17.0.15+6".
func Runs(t ccmap.Target) bool { return strings.HasPrefix(t.Runtime, "OpenJDK ") }

// MethodOf returns the method of a map. The error says that no pattern means it: the names of
// classes that a JVM makes at run time differ from one run to the next.
func MethodOf(m ccmap.Method) (Method, error) {
	return ParseMethod(m.Name + m.Signature)
}

// longestMethod bounds the text of a method, in bytes. HotSpot's patterns have room for 255 of
// each part.
const longestMethod, longestPart = 765, 255

// ParseMethod parses the text of a method.
func ParseMethod(text string) (Method, error) {
	name, descriptor, found := strings.Cut(text[:min(len(text), longestMethod+1)], "(")
	dot := strings.LastIndexByte(name, '.')
	if !found || dot <= 0 {
		return Method{}, fmt.Errorf("%w: it is no method of a class, with a descriptor", errPattern)
	}
	m := Method{name[:dot], name[dot+1:], "(" + descriptor}
	return m, m.check()
}

// madeAtRunTime are parts of the names of classes that have a number or an address, which a
// map leaves out.
var madeAtRunTime = []string{"$$Lambda", "LambdaForm", "$Proxy", "Accessor", "CGLIB$$", "ByGuice", "$ByteBuddy", "$HibernateProxy", "$MockitoMock"}

func (m Method) check() error {
	for _, part := range []string{m.Class, m.Name, m.Descriptor} {
		if part == "" || len(part) > longestPart {
			return fmt.Errorf("%w: a name of %d bytes", errPattern, len(part))
		}
	}
	for _, mark := range madeAtRunTime {
		if strings.Contains(m.Class, mark) {
			return fmt.Errorf("%w: its class is made at run time", errPattern)
		}
	}
	for _, name := range []string{m.Class, strings.Trim(m.Name, "<>"), strings.Trim(m.Descriptor, "()")} {
		if strings.ContainsFunc(name, isSpecial) {
			return fmt.Errorf("%w: a character of its name is special there", errPattern)
		}
	}
	if strings.ContainsAny(m.Name, "<>") && m.Name != "<init>" && m.Name != "<clinit>" {
		return fmt.Errorf("%w: a character of its name is special there", errPattern)
	}
	return nil
}

// isSpecial reports whether a character may mean something else in a pattern, or in the file
// that holds it.
func isSpecial(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_$./;[()", r) || r == unicode.ReplacementChar
}

// String returns the text of the method.
func (m Method) String() string { return m.Class + "." + m.Name + m.Descriptor }

// Key returns the key of the method's fan-in. A hint does not know its code.
func (m Method) Key() fanin.Key { return fanin.Key{Name: m.Short(), Signature: m.Descriptor} }

// Short returns class and name.
func (m Method) Short() string { return m.Class + "." + m.Name }

// pattern returns the compiler's pattern of the method alone.
func (m Method) pattern() string {
	return strings.ReplaceAll(m.Class, ".", "/") + "." + m.Name + m.Descriptor
}

// MarshalText implements [encoding.TextMarshaler].
func (m Method) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (m *Method) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMethod(string(text))
	return err
}

// Roots returns the roots of hints, each once.
func Roots(hints []Hint) []Method {
	var roots []Method
	seen := make(map[Method]bool)
	for _, h := range hints {
		if !seen[h.Root] {
			seen[h.Root] = true
			roots = append(roots, h.Root)
		}
	}
	return roots
}
