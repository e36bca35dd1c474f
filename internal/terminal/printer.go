package terminal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// Printer writes lines and tables one after the other, and keeps the first error.
type Printer struct {
	w     io.Writer
	width int // of the terminal; unbounded or inPipe
	err   error
}

// Widths of writers that are not terminals.
const (
	unbounded = 0  // all is printed
	inPipe    = -1 // names are shortened, and no column is dropped
)

// NewPrinter returns a printer to w. If wide is set it prints names whole, however wide
// tables get.
func NewPrinter(w io.Writer, wide bool) *Printer {
	p := &Printer{w: w, width: unbounded}
	if !wide {
		p.width = cmp.Or(Width(w), inPipe)
	}
	return p
}

// Err returns the first error.
func (p *Printer) Err() error { return p.err }

// Line prints a line. Strings among the arguments are parts of it.
func (p *Printer) Line(format string, args ...any) {
	for i, arg := range args {
		if s, ok := arg.(string); ok {
			args[i] = Printable(s)
		}
	}
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// Text prints several lines. Their foreign parts are printable already.
func (p *Printer) Text(lines string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, lines)
	}
}

// Table prints a table under its title, with a blank line above.
func (p *Printer) Table(title string, t *Table) {
	p.Line("")
	if title != "" {
		p.Line("%s", title)
	}
	if p.err == nil {
		p.err = t.write(p.w, p.width)
	}
}

// ClearLine makes a terminal remove the line that the cursor is in (ECMA-48 EL).
const ClearLine = "\r\x1b[K"

// Width returns the columns of the terminal that w is, or of the page; 0 if it is neither.
func Width(w io.Writer) int {
	if p, ok := w.(*Page); ok {
		return p.width
	}
	f, ok := Unguarded(w).(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}

// LineJSON returns v as JSON in one line, which a terminal shows as it is.
func LineJSON(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	var b bytes.Buffer
	jsonText{&b}.Write(text)
	return b.Bytes(), nil
}

// WriteJSON prints v indented, as the --json flag of every command does.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(jsonText{w})
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}
