package man

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

func tree() (root, sub *cobra.Command) {
	run := func(*cobra.Command, []string) {}
	root = &cobra.Command{Use: "prog", Short: "Works"}
	root.PersistentFlags().Bool("wide", false, "print all")
	sub = &cobra.Command{
		Use: "do FILE", Short: "Do it", Run: run, Example: "  prog do 'a'",
		Long: ".Do reads\na file.\n\n  a-b  \\x\n\n  c\nThat is all.",
	}
	sub.Flags().StringP("out", "o", "x.y", "the `FILE` that is written")
	sub.Flags().Int("secret", 0, "")
	if err := sub.Flags().MarkHidden("secret"); err != nil {
		panic(err)
	}
	root.AddCommand(sub, &cobra.Command{Use: "hidden", Hidden: true, Run: run})
	return root, sub
}

// TestWrite: text, tables, flags and edges of a page.
func TestWrite(t *testing.T) {
	t.Parallel()
	_, sub := tree()
	var out strings.Builder
	if err := Write(&out, sub, Options{
		Version: "v1", Date: time.Unix(0, 0), Exits: []Exit{{0, "done"}, {1, "it failed"}, {1, "no 'a'"}, {42, "the answer"}}, Pages: "More is at home.",
	}); err != nil {
		t.Fatal(err)
	}
	want := `.TH "PROG\-DO" "1" "1970\-01\-01" "prog v1" "Manual of prog"
.SH "NAME"
prog\-do \- Do it
.SH "SYNOPSIS"
\fBprog do FILE [flags]\fR
.SH "DESCRIPTION"
\&.Do reads
a file.
.PP
.nf
  a\-b  \ex

  c
.fi
That is all.
.SH "OPTIONS"
.TP
\fB\-o\fR, \fB\-\-out\fR \fIFILE\fR
the FILE that is written (default x.y)
.SH "OPTIONS OF ALL COMMANDS"
.TP
\fB\-\-wide\fR
print all
.SH "EXAMPLES"
.nf
  prog do \(aqa\(aq
.fi
.SH "EXIT STATUS"
.TP
\fB0\fR
done
.TP
\fB1\fR
it failed
; no \(aqa\(aq
.TP
\fB42\fR
the answer
.SH "SEE ALSO"
\fBprog\fR(1)
.PP
More is at home.
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// TestCommands: hidden commands have no page.
func TestCommands(t *testing.T) {
	t.Parallel()
	root, _ := tree()
	var names []string
	for cmd := range Commands(root) {
		names = append(names, Name(cmd))
	}
	if want := []string{"prog", "prog-do"}; !slices.Equal(names, want) {
		t.Errorf("pages %q, want %q", names, want)
	}
	for range Commands(root) {
		break // must be possible
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestWriteFails(t *testing.T) {
	t.Parallel()
	root, _ := tree()
	if err := Write(full{}, root, Options{}); err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("a full disk: %v", err)
	}
}
