package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/valueprof"
)

// valueFlags are the flags of attach, run and demo about which methods the
// program's calls reach.
type valueFlags struct {
	hits    float64 // calls caught a second; 0: none
	hash    usage.Choice
	janitor usage.Choice
	dump    bool
}

// mostHits is how many calls a second may be caught: at 16 µs each, they cost the
// program a sixth of one core.
const mostHits = 10_000

// newValueFlags returns the defaults. As many hits are the perf engine's own.
func newValueFlags() valueFlags {
	return valueFlags{
		hits:    250,
		hash:    usage.Choice{Value: valueprof.HashAuto.String(), From: hashWords()},
		janitor: usage.Choice{Value: valueprof.PolicyDecay.String(), From: policyWords()},
	}
}

func hashWords() []string {
	words := []string{valueprof.HashAuto.String()}
	for _, h := range valueprof.Hashes() {
		words = append(words, h.String())
	}
	return words
}

func policyWords() []string {
	return []string{valueprof.PolicyDecay.String(), valueprof.PolicyReset.String(), valueprof.PolicyOff.String()}
}

func (f *valueFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Float64Var(&f.hits, "hits", f.hits, "catch up to `N` calls a second of CPU time, to see which types they reach; 0: none")
	f.hash.Register(cmd, "value-hash", "`HASH` of value tables: "+terminal.OrList(f.hash.From))
	f.janitor.Register(cmd, "janitor", "`POLICY` of full value tables: "+terminal.OrList(f.janitor.From))
	flags.BoolVar(&f.dump, "dump-values", false, "print what becomes of value tables to standard error")
}

// check finds what is wrong before anything is sampled.
func (f *valueFlags) check() error {
	if !(f.hits >= 0 && f.hits <= mostHits) {
		return usage.Errorf("--hits %v is not from 0 to %d calls a second", f.hits, mostHits)
	}
	return nil
}

// options returns the options of a manager that the flags ask for. The dump goes to w.
func (f *valueFlags) options(w io.Writer) manager.ValueOptions {
	// The flags take no words but those that are known.
	hash, _ := valueprof.ParseHash(f.hash.Value)
	policy, _ := valueprof.ParsePolicy(f.janitor.Value)
	o := manager.ValueOptions{Hash: hash, Policy: policy}
	if f.dump {
		o.Dump = terminal.OneLine{W: terminal.AboveLive(w)}
	}
	return o
}
