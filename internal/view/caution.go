package view

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// Engines that sample from inside, as profiles name them (package sampler/wasm, which is
// not imported for two words).
const (
	engineWasm      = "wasm"
	engineWasmExact = "wasm, exact"
	engineManaged   = "managed"
	engineJFR       = "jfr" // samples a JVM, through the recorder in it
)

// TakeCaution returns the caution of a profile, "" if it needs none, for a report that
// begins with it. The text of later views leaves it out.
func (p *Profile) TakeCaution() string {
	caution := p.caution()
	p.cautioned = p.cautioned || caution != ""
	return caution
}

// caution says that much of a profile cannot be attributed, why, and how to mend it: "" if
// most of it can.
func (p *Profile) caution() string {
	b := p.Blind()
	if !b.Misleads() {
		return ""
	}
	lines := []string{fmt.Sprintf("%sthis profile misleads: of its %s, %s is [unknown] and %s is [truncated]",
		ccmap.CommentWarning, p.measure.noun(), figure.Percent(b.Unknown), figure.Percent(b.Truncated))}
	for _, c := range append(p.unknownCauses(), p.truncatedCauses()...) {
		lines = append(lines, "  "+terminal.Printable(c.text))
	}
	return strings.Join(lines, "\n")
}

// blindCause is one reason why time cannot be attributed.
type blindCause struct {
	percent float64 // of the profile
	text    string
}

const (
	leastCause = 3 // percent of the profile: smaller causes are not told
	mostCauses = 3 // causes that are told
)

// unknownCauses says which code has no names.
func (p *Profile) unknownCauses() []blindCause {
	var causes []blindCause
	for m := range p.Methods() {
		method, percent := m.Method(), figure.Share(p.measure.of(m.Self()), p.measure.total)
		if method.Name != ccmap.UnknownName {
			continue
		}
		text := "machine code of no file, as made by a program that compiles while it runs (JIT): nothing names it"
		switch {
		case method.Signature != "" && p.hasComment(ccmap.CommentUnread+method.Signature):
			text = "the symbols of " + method.Signature + " were not read in time, as on a busy machine or from a slow disk: sample for longer"
		case method.Signature != "":
			text = method.Signature + " has no symbols: a build that was not stripped has them"
		case p.Meta().Target.Runtime == "" && percent > 50:
			text = "no function of the program is known: its symbol tables could not be read; build it with Go 1.18 to 1.27, or get a newer ccmapd"
		}
		causes = append(causes, blindCause{percent, text})
	}
	return told(causes)
}

// truncatedCauses says below which functions the callers are missing.
func (p *Profile) truncatedCauses() []blindCause {
	at := map[ccmap.Method]ccmap.Counters{}
	for n := range p.Nodes() {
		if p.isOutermost(n) {
			m := p.Names().At(n.Method)
			at[m] = at[m].Add(p.Inclusive(n.ID))
		}
	}
	lost := map[string]int64{}
	for m, c := range at {
		lost[p.whyTruncated(m)] += p.measure.of(c)
	}
	var causes []blindCause
	for why, weight := range lost {
		causes = append(causes, blindCause{figure.Share(weight, p.measure.total), why})
	}
	return told(causes)
}

// isOutermost reports whether the callers of a node are missing. Where functions of C were lost, the runtime of
// a JVM has a frame for them, and the functions that they have called are at the rim.
func (p *Profile) isOutermost(n ccmap.Node) bool {
	if n.ID == 0 || n.Parent == 0 || n.Method == ccmap.NoMethod || p.nameOf(n) == nativeName {
		return false
	}
	caller := p.Node(n.Parent)
	if p.nameOf(caller) == nativeName && caller.Parent != 0 {
		caller = p.Node(caller.Parent)
	}
	return caller.Parent == 0 && p.nameOf(caller) == ccmap.TruncatedName
}

// nativeName is the frame of package hotspot for functions of C that it could not find.
const nativeName = "[native]"

// nameOf returns the name of a node's method, "" if it has none.
func (p *Profile) nameOf(n ccmap.Node) string {
	if n.Method == ccmap.NoMethod {
		return ""
	}
	return p.Names().At(n.Method).Name
}

// whyTruncated says why the callers of a function are missing.
func (p *Profile) whyTruncated(m ccmap.Method) string {
	switch {
	case p.Meta().Engine == engineWasm:
		return "callers in the guest are missing: a Go guest unwinds its stack when it changes goroutines, and calls from module to module are not followed"
	case m.Name == ccmap.UnknownName && m.Signature == "", m.Name == ccmap.KernelName:
		return "callers of code that is not known are missing"
	case m.Name == ccmap.UnknownName:
		return p.whyForeign(path.Base(m.Signature), m.Signature)
	case m.Name == "runtime.asmcgocall":
		return "callers of C are missing: their calls had returned before ccmapd could read the goroutine's stack, as on a busy machine"
	case m.Name == "runtime.morestack":
		return "callers of Go functions are missing in stacks that the runtime was about to move: engine bpf finds them"
	case m.File != "" || strings.HasPrefix(m.Name, "runtime."):
		return "callers of Go functions are missing: their stacks did not fit into a sample, and had changed before ccmapd could read the rest, as on a busy machine"
	}
	return p.whyForeign(p.library(m.Module), p.fileOf(m.Module))
}

// fileOf returns the path of the file that the code of a module is in; "" where it is not known.
func (p *Profile) fileOf(module string) string {
	target, file := p.Meta().Target, p.Names().Mapping(module).File
	switch {
	case file != "":
		return file
	case module != "" && module == target.BuildID:
		return target.Executable
	case strings.HasPrefix(module, "/"):
		return module
	}
	return ""
}

// library names the file that the C code of a module is in.
func (p *Profile) library(module string) string {
	target, file := p.Meta().Target, p.Names().Mapping(module).File
	switch {
	case module != "" && module == target.BuildID, file != "" && file == target.Executable:
		return "C code of the program"
	case file != "":
		return path.Base(file)
	case strings.HasPrefix(module, "/"):
		return path.Base(module)
	}
	return "C code"
}

// whyForeign says why the callers of C code in a file are missing: what the engine has said of the file, and
// otherwise no more than is known.
func (p *Profile) whyForeign(code, file string) string {
	callers := "callers of " + code + " are missing: "
	switch {
	case p.hasComment(ccmap.CommentUnread + file):
		return callers + "its call frame information was not read in time, as on a busy machine or from a slow disk: sample for longer"
	case p.hasComment(ccmap.CommentNoFrames + file):
		return callers + "it has no call frame information (.eh_frame); compile it with -fasynchronous-unwind-tables " +
			"(C in a Go program: CGO_CFLAGS='-O2 -fasynchronous-unwind-tables'), assembly with .cfi directives"
	}
	return callers + "no call frame information (.eh_frame) leads on from there, as in assembly without .cfi directives and " +
		"C that was compiled without -fasynchronous-unwind-tables"
}

func (p *Profile) hasComment(comment string) bool { return slices.Contains(p.Meta().Comments, comment) }

// told returns the causes that are large enough, with their shares.
func told(causes []blindCause) []blindCause {
	causes = slices.DeleteFunc(causes, func(c blindCause) bool { return c.percent < leastCause })
	slices.SortFunc(causes, func(a, b blindCause) int {
		return cmp.Or(cmp.Compare(b.percent, a.percent), strings.Compare(a.text, b.text))
	})
	causes = causes[:min(len(causes), mostCauses)]
	for i := range causes {
		causes[i].text = figure.Percent(causes[i].percent) + ": " + causes[i].text
	}
	return causes
}
