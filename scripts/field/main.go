// Command field compares ccmapd with other profilers on foreign programs, and with the
// truth on programs that know it, while they run. No deterministic test can do that.
//
//	go -C scripts run ./field programs               half an hour: foreign programs, guests
//	go -C scripts run ./field programs -quick        half a minute, in CI
//	go -C scripts run ./field programs -only race    one row again; the others stay
//	go -C scripts run ./field outside -window 10s    a quarter of an hour: foreign programs and the default budgets,
//	                                                 also on a busy machine
//	go -C scripts run ./field begun                  five minutes: foreign programs from their start to their end,
//	                                                 also on a busy machine
//	go -C scripts run ./field waiting                ten minutes: milliseconds of requests beside the servers' own histograms
//	go -C scripts run ./field lockstep               some minutes: work that repeats as often as samples come
//	go -C scripts run ./field repetitions            some minutes: verdicts, on a program that knows when its
//	                                                 calls began
//	go -C scripts run ./field pgo -rounds 0          makes the builds and the profiles of the next, in some minutes
//	go -C scripts run ./field pgo                    ten minutes of a quiet machine: programs built with ccmapd's profile
//	go -C scripts run ./field measured               nine minutes of a quiet machine: 'pgo measure' on servers whose difference
//	                                                 is known
//	go -C scripts run ./field jvm                    ten minutes: programs on HotSpot
//	go -C scripts run ./field hints                  ten minutes: what hints to a JVM's compiler make of a program
//	go -C scripts run ./field cached                 ten minutes of both CPUs: starts with the profile of an earlier run
//	go -C scripts run ./field jvmcost                half an hour: how fast they are while they are sampled
//	go -C scripts run ./field truths                 half an hour: programs whose shares are known, and pairs without a change;
//	                                                 also with -async FOLDER
//	go -C scripts run ./field jvmpeer -async FOLDER  ten minutes: the same programs beside async-profiler
//
// Each campaign has a file of its own. It builds its programs ([field.build]), starts
// them, attaches ccmapd built from this tree, and writes a portion of a page of docs
// (packages campaign and report). Executables and profiles are kept in the work folder,
// for a look at them afterwards. Existing executables are not built again, nor existing windows of pgo watched.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
)

// field is the campaigns' common state.
type field struct {
	campaign.Campaign
	window time.Duration // watching time of a program
	rounds int           // of pgo
	async  string        // folder of a build of async-profiler; empty: none
}

var campaigns = map[string]func(context.Context, *field) error{
	"programs": runPrograms, "lockstep": runLockstep, "repetitions": runRepetitions, "pgo": runPGO, "jvm": runJVM, "jvmcost": runJVMCost, "jvmpeer": runJVMPeer,
	"waiting": runWaiting, "hints": runHints, "outside": runOutside, "begun": runBegun, "truths": runTruths, "cached": runCached,
	"measured": runMeasured,
}

// pages are those of campaigns that do not write into docs/accuracy.md.
var pages = map[string]string{"measured": "docs/pgo.md"}

func main() {
	var name string
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	run := campaigns[name]
	if run == nil {
		fmt.Fprintf(os.Stderr, "usage: go -C scripts run ./field CAMPAIGN [flags]; a campaign is one of %s; -help lists the flags\n",
			strings.Join(slices.Sorted(maps.Keys(campaigns)), ", "))
		os.Exit(2)
	}
	f := new(field)
	f.Flags(flag.CommandLine, "field", cmp.Or(pages[name], "docs/accuracy.md"))
	flag.DurationVar(&f.window, "window", 20*time.Second, "`TIME` that a program is watched for")
	flag.IntVar(&f.rounds, "rounds", pgoRounds, "run each build `N` times, for pgo; 0: only make them")
	flag.StringVar(&f.async, "async", "", "`FOLDER` of a build of async-profiler, for jvmpeer, jvmcost and truths")
	flag.CommandLine.Parse(os.Args[2:]) // exits with an error
	campaign.Main("field", func(ctx context.Context) error {
		remove, err := f.Prepare(ctx)
		if err != nil {
			return err
		}
		defer remove()
		return run(ctx, f)
	})
}
