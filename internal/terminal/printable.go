// Package terminal prints text for people: foreign names that cannot harm a terminal,
// tables that fit into it, and JSON.
//
// Names of programs, files, functions and types are foreign. They may hold characters
// that move a terminal's cursor, rename its window, turn the direction of writing, or
// begin a line that looks like one of ours. Two things keep them off terminals:
//
//   - [Printable], wherever a foreign string is part of a line
//   - [Reason], where that string is a reason
//   - [Guarded], a writer that all text for people passes, so that no print can forget it
//
// Only profiles, and the output of programs that ccmapd runs, go past the guard
// ([Unguarded]). JSON is exact, and has its own escapes ([WriteJSON]).
package terminal

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable returns a text of one line with U+FFFD in place of each character that is
// not visible or a space, and of each byte that is not UTF-8.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// Reason is Printable for a reason, which may have the lines of several errors: it has them in one line,
// with a semicolon between two.
func Reason(s string) string {
	var lines []string
	for line := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return Printable(strings.Join(lines, "; "))
}

// PrintableLines is printable for several lines, which may have tabs.
func PrintableLines(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) || r == '\n' || r == '\t' {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// PrintableError returns an error for people. All lines but the first are indented, so
// that a name in it cannot begin a message.
func PrintableError(err error) string {
	return IndentLines(PrintableLines(strings.TrimRight(err.Error(), "\n")))
}

// IndentLines indents all lines but the first.
func IndentLines(s string) string { return strings.ReplaceAll(s, "\n", "\n  ") }

// guard is a writer of text for people, for which it makes all lines printable. Any
// goroutine may call Write.
type guard struct {
	w    io.Writer
	mu   sync.Mutex
	rest []byte // the beginning of a character that the last Write has cut
}

// Guarded returns w with a guard before it.
func Guarded(w io.Writer) io.Writer {
	if _, ok := w.(*guard); ok {
		return w
	}
	return &guard{w: w}
}

// Unguarded returns the writer that a guard stands before.
func Unguarded(w io.Writer) io.Writer {
	if g, ok := w.(*guard); ok {
		return g.w
	}
	return w
}

func (g *guard) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	text := string(g.rest) + string(p)
	whole := len(text) - cutCharacter(text)
	g.rest = append(g.rest[:0], text[whole:]...)
	if _, err := io.WriteString(g.w, PrintableLines(text[:whole])); err != nil {
		return 0, err
	}
	return len(p), nil
}

// OneLine is a writer that takes a line, with names in it, in each Write.
type OneLine struct{ W io.Writer }

func (l OneLine) Write(line []byte) (int, error) {
	if _, err := io.WriteString(l.W, Printable(strings.TrimSuffix(string(line), "\n"))+"\n"); err != nil {
		return 0, err
	}
	return len(line), nil
}

// cutCharacter returns how many bytes at the end of a text begin a character without
// completing it.
func cutCharacter(s string) int {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		if last := s[len(s)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRuneInString(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// jsonText writes JSON and escapes all characters in it that are not printable.
// encoding/json escapes some of them. One Write writes whole characters.
type jsonText struct{ w io.Writer }

func (j jsonText) Write(p []byte) (int, error) {
	var b strings.Builder
	for _, r := range string(p) {
		if unicode.IsGraphic(r) || r == '\n' {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	if _, err := io.WriteString(j.w, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ShellQuote quotes a file name for a POSIX shell if it needs that.
func ShellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./+,:@%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	if Printable(s) != s {
		return quoteEscaped(s)
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// quoteEscaped quotes a text that a terminal cannot show, in the form of POSIX.1-2024
// that escapes bytes.
func quoteEscaped(s string) string {
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '\'' || c == '\\' {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String() + "'"
}
