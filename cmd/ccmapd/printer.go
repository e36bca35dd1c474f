package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// printer writes lines and tables one after the other, and keeps the first
// error.
type printer struct {
	w     io.Writer
	width int // of the terminal; unbounded or inPipe
	err   error
}

// Widths of what is no terminal.
const (
	unbounded = 0  // all is printed
	inPipe    = -1 // names are shortened, and no column is dropped
)

func newPrinter(env *environment) *printer {
	p := &printer{w: env.stdout, width: unbounded}
	if !env.wide {
		p.width = cmp.Or(terminalWidth(env.stdout), inPipe)
	}
	return p
}

// line prints a line. Strings among the arguments are parts of it.
func (p *printer) line(format string, args ...any) {
	for i, arg := range args {
		if s, ok := arg.(string); ok {
			args[i] = printable(s)
		}
	}
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// text prints several lines. Their foreign parts are printable already.
func (p *printer) text(lines string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, lines)
	}
}

// table prints a table under its title, with a blank line above.
func (p *printer) table(title string, t *table) {
	p.line("")
	if title != "" {
		p.line("%s", title)
	}
	if p.err == nil {
		p.err = t.write(p.w, p.width)
	}
}

// terminalWidth returns the columns of the terminal behind w, 0 where w is no
// terminal.
func terminalWidth(w io.Writer) int {
	f, ok := unguarded(w).(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}

// writeJSON prints v indented, as the --json flag of every command does.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(jsonText{w})
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}
