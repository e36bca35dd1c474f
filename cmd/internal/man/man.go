// Package man writes the help of a command tree as manual pages: a page for each command, in the
// macros of man(7). Lines of help that begin with a space are tables or examples, and stay lines.
package man

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Section is the section of the pages: user commands.
const Section = "1"

// Options are the texts at the edges of a page.
type Options struct {
	Version string
	Date    time.Time // zero: none

	Exits []Exit // of the command; nil: the page says nothing of them
	Pages string // where the pages are that the help names, in a sentence; empty: nowhere
}

// Exit is an exit code.
type Exit struct {
	Code  int
	Means string
}

// Commands iterates over a command and all commands below it that the help shows.
func Commands(cmd *cobra.Command) iter.Seq[*cobra.Command] {
	return func(yield func(*cobra.Command) bool) { visit(cmd, yield) }
}

func visit(cmd *cobra.Command, yield func(*cobra.Command) bool) bool {
	if !yield(cmd) {
		return false
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && !visit(sub, yield) {
			return false
		}
	}
	return true
}

// Name returns the name of the page of a command, for example "ccmapd-top".
func Name(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// Write writes the page of a command.
func Write(w io.Writer, cmd *cobra.Command, o Options) error {
	p := &page{bufio.NewWriter(w)}
	date := ""
	if !o.Date.IsZero() {
		date = o.Date.UTC().Format(time.DateOnly)
	}
	root := cmd.Root().Name()
	p.macro("TH", strings.ToUpper(Name(cmd)), Section, date, strings.TrimSpace(root+" "+o.Version), "Manual of "+root)
	p.macro("SH", "NAME")
	p.line(escape(Name(cmd)) + ` \- ` + escape(cmd.Short))
	p.macro("SH", "SYNOPSIS")
	p.line(`\fB` + escape(cmd.UseLine()) + `\fR`)
	p.macro("SH", "DESCRIPTION")
	p.text(cmp.Or(cmd.Long, cmd.Short))
	p.flags("OPTIONS", cmd.NonInheritedFlags())
	p.flags("OPTIONS OF ALL COMMANDS", cmd.InheritedFlags())
	if cmd.Example != "" {
		p.macro("SH", "EXAMPLES")
		p.text(cmd.Example)
	}
	p.exits(o.Exits)
	p.seeAlso(cmd, o.Pages)
	if err := p.Flush(); err != nil {
		return fmt.Errorf("write page of %s: %w", cmd.CommandPath(), err)
	}
	return nil
}

// page writes lines. Its writer keeps the first error.
type page struct{ *bufio.Writer }

func (p *page) line(text string) { p.WriteString(text + "\n") }

// macro writes a macro with its arguments, each in quotes.
func (p *page) macro(name string, args ...string) {
	p.WriteString("." + name)
	for _, arg := range args {
		p.WriteString(` "` + strings.ReplaceAll(escape(arg), `"`, `\(dq`) + `"`)
	}
	p.WriteByte('\n')
}

// text writes paragraphs, and lines that stay as they are.
func (p *page) text(text string) {
	asIs := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		if is := line != "" && (line[0] == ' ' || line[0] == '\t'); line != "" && is != asIs {
			asIs = is
			p.macro(map[bool]string{true: "nf", false: "fi"}[is])
		}
		switch {
		case line != "":
			p.line(escape(line))
		case asIs:
			p.line("")
		default:
			p.macro("PP")
		}
	}
	if asIs {
		p.macro("fi")
	}
}

// flags writes a section with flags, if there are any.
func (p *page) flags(title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.macro("SH", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		p.macro("TP")
		head := `\fB` + escape("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			head = `\fB` + escape("-"+f.Shorthand) + `\fR, ` + head
		}
		if name != "" {
			head += ` \fI` + escape(name) + `\fR`
		}
		p.line(head)
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" {
			usage += " (default " + f.DefValue + ")"
		}
		p.line(escape(usage))
	})
}

// exits writes the section of exit codes. A code that means two things has both in one paragraph.
func (p *page) exits(all []Exit) {
	if len(all) == 0 {
		return
	}
	p.macro("SH", "EXIT STATUS")
	for i, e := range all {
		if i > 0 && all[i-1].Code == e.Code {
			p.line("; " + escape(e.Means))
			continue
		}
		p.macro("TP")
		p.line(`\fB` + strconv.Itoa(e.Code) + `\fR`)
		p.line(escape(e.Means))
	}
}

func (p *page) seeAlso(cmd *cobra.Command, more string) {
	var pages []string
	if cmd.HasParent() {
		pages = append(pages, Name(cmd.Parent()))
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			pages = append(pages, Name(sub))
		}
	}
	if len(pages) == 0 && more == "" {
		return
	}
	p.macro("SH", "SEE ALSO")
	for i, name := range pages {
		comma := ","
		if i == len(pages)-1 {
			comma = ""
		}
		p.line(`\fB` + escape(name) + `\fR(` + Section + `)` + comma)
	}
	if more != "" {
		p.macro("PP")
		p.line(escape(more))
	}
}

var special = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// escape makes text mean itself, also where a line begins with it.
func escape(text string) string {
	text = special.Replace(text)
	if strings.HasPrefix(text, ".") {
		return `\&` + text
	}
	return text
}
