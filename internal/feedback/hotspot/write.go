package hotspot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
)

// WriteDirectives writes a file of compiler directives, which
// -XX:CompilerDirectivesFile and the diagnostic command Compiler.directives_add read. There is
// a directive for each root, after comments that say why.
func WriteDirectives(w io.Writer, hints []Hint) error {
	text, err := directives(hints, "")
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// directive is an entry of such a file (src/hotspot/share/compiler/directivesParser.cpp).
type directive struct {
	Match []string `json:"match"`
	C2    struct {
		Inline []string `json:"inline"`
	} `json:"c2"`
}

// directives returns the text of a file. mark, unless it is empty, is a pattern that stands
// with each root, and matches no method.
func directives(hints []Hint, mark string) ([]byte, error) {
	var text bytes.Buffer
	text.WriteString("[\n")
	for i, root := range Roots(hints) {
		if i > 0 {
			text.WriteString(",\n")
		}
		d := directive{Match: []string{root.pattern()}}
		if mark != "" {
			d.Match = append(d.Match, mark)
		}
		for _, h := range hints {
			if h.Root == root {
				fmt.Fprintf(&text, "  // %s\n", comment(h))
				d.C2.Inline = append(d.C2.Inline, h.sign()+h.Callee.pattern())
			}
		}
		text.WriteString("  ")
		if err := encode(&text, d); err != nil {
			return nil, err
		}
	}
	text.WriteString("]\n")
	return text.Bytes(), nil
}

// sign returns what stands before a pattern in a directive.
func (h Hint) sign() string {
	if h.Action == Inline {
		return "+"
	}
	return "-"
}

// encode writes a line of JSON as HotSpot reads it: without escapes.
func encode(w io.Writer, d directive) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil {
		return fmt.Errorf("encode directive: %w", err)
	}
	return nil
}

// comment returns a hint as a comment of one line. Its reason has foreign names, and may be shown on a
// terminal.
func comment(h Hint) string {
	reason := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, h.Reason)
	return fmt.Sprintf("%s %s at %s:%d: %s", h.Action, h.Callee.Short(), h.Caller.Short(), h.Bytecode, reason)
}

// commandNames are the names of commands, in any case (src/hotspot/share/compiler/compilerOracle.hpp, 17 to 25). A line
// with a method of such a name is an error to the JVM, however it is written, and the JVM does not start.
var commandNames = strings.Fields(`
	backgroundcompilation blackhole blocklayoutbyfrequency break breakatcompile breakatexecute
	clonemapdebug compileonly compilethresholdscaling controlintrinsic disableintrinsic dontinline
	dumpinline dumpreplay exclude help igvprintlevel incrementalinlineforcecleanup inline log
	maxnodelimit memlimit memstat nortmlockeliding option print printassembly printcompilation
	printdebuginfo printdependencies printideal printinlining printintrinsics printnmethods
	printoptoassembly printrelocations quiet repeatcompilation replayinline testoptiondouble
	testoptionint testoptionlist testoptionstr testoptionuint traceoptooutput traceoptopipelining
	tracespilling usertmlockeliding vectorize vectorizedebug`)

// mayCommand reports whether a command can name a method.
func mayCommand(m Method) bool { return !slices.Contains(commandNames, strings.ToLower(m.Name)) }

// WriteCommands writes a file for -XX:CompileCommandFile. Such a command holds for the
// compilations of all methods. So there are commands to inline alone: to keep a callee out
// everywhere would do harm where the callee belongs.
func WriteCommands(w io.Writer, hints []Hint) error {
	var text bytes.Buffer
	text.WriteString("# These commands hold for compilations of all methods. Directives hold for one: prefer them.\n")
	written := make(map[Method]bool)
	for _, h := range hints {
		switch {
		case h.Action == KeepOut:
			fmt.Fprintf(&text, "# not for all methods: %s\n", comment(h))
		case !mayCommand(h.Callee):
			fmt.Fprintf(&text, "# not by a command, for its name is one: %s\n", comment(h))
		case !written[h.Callee]:
			written[h.Callee] = true
			fmt.Fprintf(&text, "# %s\ninline %s\n", comment(h), h.Callee.pattern())
		}
	}
	_, err := w.Write(text.Bytes())
	return err
}
