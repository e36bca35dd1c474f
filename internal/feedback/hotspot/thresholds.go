package hotspot

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/fanin"
)

// MostEarly is how many methods are compiled early, unless another number is asked for. With 496 methods, and a
// hundredth of the usual calls, programs took 1.4 to 2.0 times the CPU time; with 50 and a tenth, 0.93 to 1.0 times.
const MostEarly = 50

// EarlyScale is the part of the usual calls after which a method is compiled, unless another is asked for.
const EarlyScale = 0.1

// MostEarlyEver bounds what may be asked for.
const MostEarlyEver = 10_000

// Early returns the methods that C2 had compiled and that have the most CPU time themselves, at most
// so many: those to be compiled early at the next start. Methods that no pattern or command can
// name, and those whose code was thrown away often, are left out.
func Early(s *ccmap.Snapshot, most int) (methods []Method) {
	f := finder{s: s, names: s.Names(), thrown: Thrown(s)}
	var compiled []ccmap.MethodProfile
	for _, p := range s.Points() {
		if p.Origin == ccmap.OriginVM && p.Kind == ccmap.PointBlock && p.Offset == 0 && p.Frozen {
			if m, sampled := s.Method(p.Method); sampled && weight(m.Self()) > 0 {
				compiled = append(compiled, m)
			}
		}
	}
	slices.SortStableFunc(compiled, func(a, b ccmap.MethodProfile) int { return cmp.Compare(weight(b.Self()), weight(a.Self())) })
	for _, m := range compiled {
		method, err := f.method(m.ID())
		if err == nil && f.mayHave(method) == nil && mayCommand(method) && len(methods) < most {
			methods = append(methods, method)
		}
	}
	return methods
}

// EarlyKeys returns methods as a source of fan-in knows them.
func EarlyKeys(methods []Method) []fanin.Key {
	return keysOf(methods, func(m Method) Method { return m })
}

// WriteThresholds writes a file for -XX:CompileCommandFile that has methods compiled after a part of
// the usual calls. Comments say what a shared source knows better of them.
func WriteThresholds(w io.Writer, methods []Method, called []fanin.Called, scale float64) error {
	var text bytes.Buffer
	part := strconv.FormatFloat(scale, 'f', -1, 64)
	if !strings.Contains(part, ".") {
		part += ".0" // the JVM reads no double without a point
	}
	fmt.Fprintf(&text, "# These methods are compiled after %s of the usual calls, so with less of a profile.\n", part)
	text.WriteString("# It helps few programs, if any: measure yours with and without.\n")
	for _, m := range methods {
		if c := calledOf(m, called); c != nil {
			fmt.Fprintf(&text, "# %s\n", strings.Join(strings.Fields(c.String()), " ")) // of a source without line breaks
		}
		// With a point between class and method, the one of the scale is a mistake to the JVM: it wants one in
		// the line (MethodMatcher::canonicalize in src/hotspot/share/compiler/methodMatcher.cpp, 17 and 25).
		fmt.Fprintf(&text, "CompileThresholdScaling %s::%s%s %s\n", m.Class, m.Name, m.Descriptor, part)
	}
	_, err := w.Write(text.Bytes())
	return err
}
