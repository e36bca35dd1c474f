package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
)

// console is written and read by all threads, one at a time, like .NET's Console.
type console struct {
	mu     sync.Mutex
	out    *bufio.Writer
	copied bytes.Buffer // of the lines since the last take
}

// openConsole returns the check of a console whose output the system discards.
func openConsole() check {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return func(*rand.Rand) error { return fmt.Errorf("open console: %w", err) }
	}
	return (&console{out: bufio.NewWriterSize(null, 512)}).check
}

// writeLine prints a line and returns it.
func (c *console) writeLine(format string, args ...any) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copied.Reset()
	_, err := fmt.Fprintf(io.MultiWriter(c.out, &c.copied), format+"\n", args...)
	return c.copied.String(), err
}

func (c *console) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Flush()
}

// entry is a line of the printed list.
type entry struct {
	name  string
	count int
	share float64
}

func drawEntries(r *rand.Rand) []entry {
	list := make([]entry, 12)
	for i := range list {
		list[i] = entry{words[r.IntN(len(words))], r.IntN(1e6), float64(r.IntN(1000)) / 10}
	}
	return list
}

// check prints a list in two ways, reads it back, and prints values of all
// kinds.
func (c *console) check(r *rand.Rand) error {
	list := drawEntries(r)
	table, err := layOut(list)
	if err != nil {
		return err
	}
	printed, err := c.printAll(list)
	if err != nil {
		return err
	}
	for _, text := range []string{table, printed} {
		if err := checkEntries(strings.NewReader(text), list); err != nil {
			return err
		}
	}
	return first(c.checkKinds(r), c.flush())
}

// printAll prints every entry, after a mark of its own.
func (c *console) printAll(list []entry) (string, error) {
	var all strings.Builder
	for _, e := range list {
		text, err := c.writeLine("%s\t%d\t%.1f", e.name, e.count, e.share)
		if err != nil {
			return "", err
		}
		all.WriteString(text)
	}
	return all.String(), nil
}

// layOut aligns the list in columns.
func layOut(list []entry) (string, error) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	for _, e := range list {
		fmt.Fprintf(w, "%s\t%d\t%.1f\n", e.name, e.count, e.share)
	}
	err := w.Flush()
	return text.String(), err
}

// checkEntries reads lines as a program reads its standard input.
func checkEntries(input io.Reader, want []entry) error {
	lines := bufio.NewScanner(input)
	for _, e := range want {
		if !lines.Scan() {
			return io.ErrUnexpectedEOF
		}
		var got entry
		_, err := fmt.Sscan(lines.Text(), &got.name, &got.count, &got.share)
		if err := first(err, same("line", got, e)); err != nil {
			return err
		}
	}
	return lines.Err()
}

// checkKinds prints a value of each kind.
func (c *console) checkKinds(r *rand.Rand) error {
	n, x, letter := r.IntN(1000), r.Float64(), drawChar(r)
	for _, v := range []any{n, x, letter, n%2 == 0, "text", []int{n, n + 1}, weekday(n % 7), struct{ Left, Right int }{n, -n}} {
		text, err := c.writeLine("%v %T", v, v)
		if err := first(err, same("printed", text, fmt.Sprint(v)+" "+fmt.Sprintf("%T", v)+"\n")); err != nil {
			return err
		}
	}
	return nil
}
