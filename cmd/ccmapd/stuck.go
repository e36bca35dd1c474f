package main

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/internal/signals"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

const stuckLong = `Stuck lists the goroutines of a Go program, or the Java threads of a JVM, that wait for
--longer at least, those with the same stack together: leaks, deadlocks, a lock held for
too long. It reads the memory of the process, which neither stops nor is changed.

It looks again and again for --watch: what is in the same wait at all looks has lasted so
long at least. Longer waits of goroutines are proved by notes of Go's collector. It runs
every two minutes or sooner: one run shows what the one before has found waiting. What
lasts all the time without such a proof is counted apart, where --longer is more.

In a JVM the owner of a monitor that threads wait for is shown with its stack, and that
of a lock of java.util.concurrent that it owns alone. Threads that wait for each other's
are a deadlock. Mutexes of Go do not tell their owners, nor do locks that readers hold.
Virtual threads are listed, too (JDK 25): each look has found the same stack. With ZGC,
they and the owners of locks are not known.

With --json: pid, what, longer_ns, watched_ns, tasks [that there are], stuck, unknown,
unseen [not looked at, to bound the work], groups [{reason, tasks, least_ns, most_ns, some
[{id, virtual, name, monitor, lock}], labels, frames [{method, file, line}], owner [as
some, and runs, reason, frames]}], deadlocks [a list of some each], locks_unknown [why
owners of locks are not known], virtual_unknown [why not all virtual threads are].`

const stuckExample = `  ccmapd stuck 4242                              that wait for 10 s or longer
  ccmapd stuck web --longer 5m                   … for 5 min, by the collector's notes
  ccmapd stuck 4242 --longer 1s --top 0          all groups
  ccmapd stuck 4242 --json | jq '.groups[0]'`

// stuckFlags are the flags of stuck.
type stuckFlags struct {
	longer, watch time.Duration
	top           int
	labels, json  bool
}

func newStuckCmd(env *environment) subcommand {
	f := stuckFlags{longer: 10 * time.Second, top: 20, labels: true}
	cmd := &cobra.Command{
		Use:               "stuck PID|NAME",
		Short:             "List what has waited for long: goroutines, threads of a JVM, deadlocks",
		Long:              stuckLong,
		Example:           stuckExample,
		GroupID:           groupSample,
		Args:              argCount(1, 1, "one process id or name"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			p, err := findProcess(args, "")
			if err != nil {
				return err
			}
			defer p.close()
			ctx, stop := signals.UntilInterrupted(cmd.Context())
			defer stop()
			s, err := engine.FindStuck(ctx, engine.StuckOptions{
				PID: p.pid, Longer: f.longer, Watch: f.watch, NoLabels: !f.labels, SymbolCache: symbolCache(os.Getenv),
			})
			switch {
			case err != nil:
				return err
			case p.pinned != nil && p.pinned.Gone():
				return fmt.Errorf("look at process %d: it has ended: %w", p.pid, sampler.ErrNoProcess)
			case f.json:
				return terminal.WriteJSON(env.stdout, s)
			}
			return printStuck(terminal.NewPrinter(env.stdout, env.wide), s, f.top)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.longer, "longer", f.longer, "how long a wait must have lasted, a `TIME`")
	flags.DurationVar(&f.watch, "watch", 0, "look for `TIME`; default: --longer, 10s at most")
	flags.IntVar(&f.top, "top", f.top, "print `N` groups; 0: all")
	flags.BoolVar(&f.labels, labelsFlag, f.labels, "print labels of goroutines (pprof.Do), which may hold user data")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	return subcommand{cmd, attaching(nil)}
}

func (f *stuckFlags) check() error {
	switch {
	case f.longer <= 0:
		return usage.Errorf("--longer %v is not positive", f.longer)
	case f.watch < 0:
		return usage.Errorf("--watch %v is negative", f.watch)
	case f.top < 0:
		return usage.Errorf("--top %d is negative", f.top)
	}
	return nil
}

// printStuck prints what has waited for long. Names are foreign.
func printStuck(p *terminal.Printer, s engine.Stuck, top int) error {
	p.Line("%s of %s %s wait for %v or longer.", figure.Count(int64(s.Stuck)), figure.Count(int64(s.Tasks)), s.What, s.Longer)
	if s.Unknown > 0 {
		p.Line("%s more wait for %v at least, and perhaps for longer: --watch %v tells.",
			figure.Count(int64(s.Unknown)), s.Watched.Round(time.Millisecond), s.Longer)
	}
	if s.Unseen > 0 {
		p.Line("%s of them were not looked at.", figure.Count(int64(s.Unseen)))
	}
	if s.VirtualUnknown != "" {
		p.Line("Not all virtual threads that wait are seen: %s.", s.VirtualUnknown)
	}
	if s.LocksUnknown != "" {
		p.Line("Who owns some locks is not known: %s.", s.LocksUnknown)
	}
	for _, cycle := range s.Deadlocks {
		p.Line("")
		p.Line("Deadlock of %s:", figure.Plural(int64(len(cycle)), "thread"))
		for i, t := range cycle {
			next := cycle[(i+1)%len(cycle)]
			p.Line("    %s waits for %s, which %s owns",
				nameTask(t.ID, t.Virtual, t.Name), nameLock(t.Monitor, t.Lock), nameTask(next.ID, next.Virtual, next.Name))
		}
	}
	for i, g := range s.Groups {
		if top > 0 && i == top {
			p.Line("")
			p.Line("and %s more; --top 0 prints all.", figure.Plural(int64(len(s.Groups)-top), "group"))
			break
		}
		p.Line("")
		printGroup(p, g)
	}
	return p.Err()
}

// printGroup prints tasks that wait with one stack.
func printGroup(p *terminal.Printer, g engine.StuckGroup) {
	lasted := "for " + roundWait(g.Least)
	if roundWait(g.Most) != roundWait(g.Least) {
		lasted = fmt.Sprintf("for %s to %s", roundWait(g.Least), roundWait(g.Most))
	}
	p.Line("%s × %s %s at least", figure.Count(int64(g.Tasks)), g.Reason, lasted)
	printStackOf(p, g.Frames)
	var some []string
	for _, t := range g.Some {
		some = append(some, nameTask(t.ID, t.Virtual, t.Name))
	}
	if more := g.Tasks - len(some); more > 0 {
		some = append(some, fmt.Sprintf("and %s more", figure.Count(int64(more))))
	}
	p.Line("    %s %s", map[bool]string{true: "it is", false: "these are"}[g.Tasks == 1], strings.Join(some, ", "))
	if g.Labels != "" {
		p.Line("    labels: %s", g.Labels)
	}
	if o := g.Owner; o != nil {
		p.Line("  %s is owned by %s %s", nameLock(o.Monitor, o.Lock), nameTask(o.ID, o.Virtual, o.Name), cmp.Or(o.Reason, "[running]"))
		printStackOf(p, o.Frames)
	}
}

// printStackOf prints a stack, innermost call first.
func printStackOf(p *terminal.Printer, frames []engine.StuckFrame) {
	for _, f := range frames {
		at := f.File
		if at != "" && f.Line > 0 {
			at += ":" + strconv.Itoa(f.Line)
		}
		p.Line("%s", strings.TrimRight("    "+f.Method+"  "+at, " "))
	}
}

// nameTask names a goroutine by its number, a thread by its name, too, and a virtual one as virtual.
func nameTask(id uint64, virtual bool, name string) string {
	number := strconv.FormatUint(id, 10)
	if virtual {
		number = "virtual " + number
	}
	if name == "" {
		return number
	}
	return fmt.Sprintf("%q (%s)", name, number)
}

// nameLock names what a thread waits for.
func nameLock(monitor, lock string) string {
	if lock != "" {
		return "lock " + lock
	}
	return "monitor " + monitor
}

// roundWait rounds a time down to what tells: a wait is so long at least.
func roundWait(d time.Duration) string {
	switch {
	case d >= time.Minute:
		d = d.Truncate(time.Second)
	case d >= time.Second:
		d = d.Truncate(100 * time.Millisecond)
	default:
		d = d.Truncate(time.Millisecond)
	}
	return d.String()
}
