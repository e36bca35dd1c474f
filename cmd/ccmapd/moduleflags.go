package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/wasi"
)

// moduleFlags are the flags of run that are for WebAssembly modules alone.
type moduleFlags struct {
	env   []string // NAME=VALUE
	dirs  mounts
	exact bool
	burst burst
}

// moduleFlagNames are all of them.
var moduleFlagNames = []string{"env", "dir", "exact", "burst"}

// tuneFlagNames are those that say how to adapt the interval.
var tuneFlagNames = []string{
	"tune", "tune-low", "tune-high", "tune-window", "tune-settled", "min-interval", "max-interval", "max-overhead",
}

// inexactFlagNames are those that say how often to sample, which --exact knows.
var inexactFlagNames = append([]string{"burst", "interval"}, tuneFlagNames...)

// asksToTune reports whether any of them is given. If none is, the interval of a
// module stays as it is: it is cheap to sample, and its runs are to be compared.
func asksToTune(cmd *cobra.Command) bool {
	return slices.ContainsFunc(tuneFlagNames, cmd.Flags().Changed)
}

func (f *moduleFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.env, "env", nil, "set `NAME=VALUE` in the module's environment, which is empty otherwise; may be repeated")
	flags.Var(&f.dirs, "dir", "let the module use the directory `HOST[:GUEST][:ro]`, as GUEST, for reading only; may be repeated")
	flags.BoolVar(&f.exact, "exact", false, "record every call of the module, instead of samples")
	flags.Var(&f.burst, "burst", "take `N[:STRIDE]` samples at each interval, one at each STRIDE-th safe point of the module")
	// The only error is that there is no such flag.
	_ = cmd.MarkFlagDirname("dir")
	_ = cmd.RegisterFlagCompletionFunc("env", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("burst", cobra.NoFileCompletions)
}

// checkUnused refuses the flags for modules where the program is none.
func (f *moduleFlags) checkUnused(cmd *cobra.Command) error {
	for _, name := range moduleFlagNames {
		if cmd.Flags().Changed(name) {
			return withHint(usage.Errorf("--%s is for WebAssembly modules, and %s is none", name, cmd.Flags().Arg(0)),
				"Other programs have ccmapd's environment and files, and are sampled once at each interval.")
		}
	}
	return nil
}

// check finds what is wrong before the module is started.
func (f *moduleFlags) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("engine") {
		return withHint(usage.Errorf("--engine is for other programs: a WebAssembly module is sampled from inside"), "Leave --engine away.")
	}
	for _, v := range f.env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			return usage.Errorf("--env %q is not NAME=VALUE", v)
		}
	}
	if i := slices.IndexFunc(inexactFlagNames, cmd.Flags().Changed); f.exact && i >= 0 {
		return withHint(usage.Errorf("--exact and --%s exclude each other", inexactFlagNames[i]), "With --exact there is no interval: every call is recorded.")
	}
	return nil
}

// mounts is the value of --dir.
type mounts []wasi.Mount

func (m *mounts) Type() string { return "directory" }

func (m *mounts) String() string {
	list := make([]string, len(*m))
	for i, one := range *m {
		list[i] = one.Host + ":" + one.Guest
		if one.ReadOnly {
			list[i] += readOnlySuffix
		}
	}
	return strings.Join(list, ",")
}

const readOnlySuffix = ":ro"

// Set takes HOST[:GUEST][:ro], in which HOST may have colons if there is a GUEST.
// Without a GUEST, that is HOST.
func (m *mounts) Set(s string) error {
	rest, readOnly := strings.CutSuffix(s, readOnlySuffix)
	host, guest := rest, rest
	if i := strings.LastIndexByte(rest, ':'); i >= 0 {
		host, guest = rest[:i], rest[i+1:]
	}
	if host == "" || guest == "" {
		return fmt.Errorf("%q is not HOST[:GUEST][:ro]", s)
	}
	*m = append(*m, wasi.Mount{Host: host, Guest: guest, ReadOnly: readOnly})
	return nil
}

// burst is the value of --burst: how many samples to take at each interval, and at
// how many safe points from each other.
type burst struct{ samples, stride int }

// mostBurst is the largest of both numbers.
const mostBurst = 1 << 20

func (b *burst) Type() string { return "burst" }

func (b *burst) String() string {
	if b.samples == 0 {
		return ""
	}
	return fmt.Sprintf("%d:%d", b.samples, b.stride)
}

func (b *burst) Set(s string) error {
	first, second, found := strings.Cut(s, ":")
	if !found {
		second = "1"
	}
	samples, err1 := strconv.Atoi(first)
	stride, err2 := strconv.Atoi(second)
	if err1 != nil || err2 != nil || min(samples, stride) < 1 || max(samples, stride) > mostBurst {
		return fmt.Errorf("%q is not two numbers from 1 to %d: write 16 or 16:4", s, mostBurst)
	}
	*b = burst{samples, stride}
	return nil
}
