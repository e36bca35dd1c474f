package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/compilation"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

const storeRecordsLong = `Records lists what compilers have made of methods: for each method the record that counts,
of the highest level the last one. record in [feedback] of the daemon's configuration says
of which methods there are records.

  level    3: compiled with a full profile; 4: compiled out of one
  loop     the bytecode index where a running loop was entered; '?': not known
  inlined  calls that were inlined, of all that the compiler came to
  thrown   how often compiled code of the method had been thrown away
  wrong    how often a profile of this record was wrong; 10 times: it is out of use

With --calls it prints the calls of the methods that METHOD means, and why they were or
were not inlined.`

// storeRecordsFlags are the flags of store records.
type storeRecordsFlags struct {
	*storeFlags
	filter store.Filter
	calls  bool
}

func newStoreRecordsCmd(env *environment, f *storeFlags) subcommand {
	l := storeRecordsFlags{storeFlags: f}
	cmd := &cobra.Command{
		Use:     "records NAME [METHOD]",
		Short:   "List what compilers have made of methods",
		Long:    storeRecordsLong,
		Example: "  ccmapd store records web\n  ccmapd store records web Cart.add --calls",
		Args:    argCount(1, 2, "a target, and perhaps a part of a method's name"),
		RunE: func(_ *cobra.Command, args []string) error {
			l.filter.Target = args[0]
			part := ""
			if len(args) == 2 {
				part = args[1]
			}
			if l.calls && part == "" {
				return usage.Errorf("--calls needs a METHOD")
			}
			return l.run(env, part)
		},
	}
	cmd.Flags().StringVar(&l.filter.Build, "build", "", "only those of builds whose `ID` begins like this")
	cmd.Flags().BoolVar(&l.calls, "calls", false, "print the calls of the methods")
	f.registerJSON(cmd)
	return subcommand{cmd, reading(noProfiles, noOutputs)}
}

// storedRecords is the JSON of store records.
type storedRecords struct {
	Builds []buildRecords `json:"builds"`
}

// buildRecords are the records of one build and user in JSON.
type buildRecords struct {
	Build   string               `json:"build"`
	UID     *int                 `json:"uid,omitempty"`
	GID     *int                 `json:"gid,omitempty"` // if the records are one user's
	File    string               `json:"file"`
	Lines   int                  `json:"lines"`   // that are whole
	Damaged int                  `json:"damaged"` // lines that are no records
	Records []compilation.Record `json:"records"`
}

func (l *storeRecordsFlags) run(env *environment, part string) error {
	r, err := l.reader()
	if err != nil {
		return err
	}
	files := r.Records(l.filter)
	if len(files) == 0 {
		return &advice.Error{Code: advice.CodeNoTarget, Err: fmt.Errorf("the store has no compile records of %q", l.filter.Target),
			Hint: "record in [feedback] of the daemon's configuration says of which methods it keeps them."}
	}
	var all storedRecords
	for _, of := range files {
		log, err := r.ReadRecords(of)
		if err != nil {
			return err
		}
		one := buildRecords{Build: of.Build, File: of.Name, Lines: len(log.Records), Damaged: log.Damaged}
		if of.Owner.Traceable {
			one.UID, one.GID = &of.Owner.UID, &of.Owner.GID
		}
		one.Records = slices.DeleteFunc(compilation.NewCache(log.Records).All(), func(r compilation.Record) bool {
			return !strings.Contains(r.Name+r.Signature, part)
		})
		all.Builds = append(all.Builds, one)
	}
	if l.asJSON {
		return terminal.WriteJSON(env.stdout, all)
	}
	out := terminal.NewPrinter(env.stdout, env.wide)
	for i, one := range all.Builds {
		if i > 0 {
			out.Line("")
		}
		l.print(out, one)
	}
	return out.Err()
}

// print prints the records of a build.
func (l *storeRecordsFlags) print(out *terminal.Printer, b buildRecords) {
	damage := ""
	if b.Damaged > 0 {
		damage = fmt.Sprintf("; %s damaged", figure.Plural(int64(b.Damaged), "line"))
	}
	user := ""
	if b.UID != nil {
		user = fmt.Sprintf(", user %d", *b.UID)
	}
	out.Line("build %s%s: %s of %s%s", b.Build, user, figure.Plural(int64(len(b.Records)), "method"), figure.Plural(int64(b.Lines), "record"), damage)
	if l.calls {
		for _, r := range b.Records {
			printCalls(out, r)
		}
		return
	}
	if len(b.Records) == 0 {
		return
	}
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "level", Right: true}, {Title: "loop", Right: true}, {Title: "inlined", Right: true}, {Title: "thrown", Right: true},
		{Title: "wrong", Right: true}, {Title: "method", Shorten: terminal.ShortenMethod, Least: 24},
	}}
	for _, r := range b.Records {
		inlined := 0
		for _, c := range r.Calls {
			if c.Inlined {
				inlined++
			}
		}
		calls := ""
		if len(r.Calls) > 0 {
			calls = fmt.Sprintf("%d of %d", inlined, len(r.Calls))
		}
		t.Add(unlessZero(int64(r.Level)), loopOf(r.OSR), calls, unlessZero(r.Thrown), unlessZero(int64(r.Wrong)), r.Name+r.Signature)
	}
	out.Table("", t)
}

// printCalls prints the calls of a method as the compiler came to them.
func printCalls(out *terminal.Printer, r compilation.Record) {
	out.Line("")
	out.Line("%s%s, level %d", terminal.Printable(r.Name), terminal.Printable(r.Signature), r.Level)
	for _, c := range r.Calls {
		verb := "not inlined"
		if c.Inlined {
			verb = "inlined"
		}
		out.Line("  %-11s  %s at %s:%d: %s", verb, terminal.Printable(c.Callee), terminal.Printable(c.Caller), c.Offset,
			terminal.Printable(cmp.Or(c.Words, "no reason")))
	}
}

func loopOf(osr int) string {
	switch osr {
	case compilation.NoOSR:
		return ""
	case compilation.OSRUnknown:
		return "?"
	}
	return strconv.Itoa(osr)
}

func unlessZero(n int64) string {
	if n == 0 {
		return ""
	}
	return figure.Count(n)
}
