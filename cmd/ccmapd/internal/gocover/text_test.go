package gocover

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
)

// writeText writes the counts of a program as 'go tool covdata textfmt' does, in the form
// that 'go tool cover' reads.
func (p *Program) writeText(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "mode: %s\n", p.Mode)
	packages := slices.Clone(p.Packages)
	slices.SortStableFunc(packages, func(a, b Package) int { return cmp.Compare(a.Path, b.Path) })
	for _, pkg := range packages {
		for _, l := range pkg.textLines() {
			fmt.Fprintf(out, "%s:%d.%d,%d.%d %d %d\n",
				l.file, l.Start.Line, l.Start.Column, l.End.Line, l.End.Column, l.Statements, l.Count)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write coverage text: %w", err)
	}
	return nil
}

type textLine struct {
	file string
	Block
}

func (p *Package) textLines() []textLine {
	var lines []textLine
	for _, f := range p.Functions {
		for _, b := range f.Blocks {
			lines = append(lines, textLine{f.File, b})
		}
	}
	slices.SortStableFunc(lines, func(a, b textLine) int {
		return cmp.Or(
			cmp.Compare(a.file, b.file),
			cmp.Compare(a.Start.Line, b.Start.Line),
			cmp.Compare(a.End.Line, b.End.Line),
			cmp.Compare(a.Start.Column, b.Start.Column),
			cmp.Compare(a.End.Column, b.End.Column),
			cmp.Compare(a.Statements, b.Statements),
		)
	})
	return lines
}
