package main

import "math"

// cost is what sampling costs in a mode, over all workloads that print their
// CPU time.
type cost struct {
	programs int
	target   float64 // percent of CPU time more than alone, mean over the programs
	error    float64 // standard error of that, percent
	daemon   float64 // percent of the target's CPU time
}

// spending is CPU time in seconds, by mode and program: of the target in each
// run, and of ccmapd.
type spending map[string]map[string]*spent

type spent struct{ target, daemon []float64 }

func (s spending) add(p program, m mode, all []session) {
	for _, x := range all {
		if x.TargetCPU == 0 {
			continue
		}
		if s[m.name] == nil {
			s[m.name] = make(map[string]*spent)
		}
		if s[m.name][p.name] == nil {
			s[m.name][p.name] = new(spent)
		}
		at := s[m.name][p.name]
		at.target = append(at.target, x.TargetCPU.Seconds())
		at.daemon = append(at.daemon, x.DaemonCPU.Seconds())
	}
}

// costs holds each mode that does the same work against the programs alone: run
// by run, as a run of each was made at about the same time.
func (s spending) costs(c config) map[string]cost {
	all := make(map[string]cost)
	for _, m := range modes(c) {
		if m.sampling == nil || m.share != 1 {
			continue
		}
		var more, daemon []float64
		for name, at := range s[m.name] {
			if plain := s[alone][name]; plain != nil {
				more = append(more, 100*(median(ratios(at.target, plain.target))-1))
				daemon = append(daemon, 100*mean(at.daemon)/mean(at.target))
			}
		}
		if n := len(more); n > 0 {
			all[m.name] = cost{n, mean(more), deviation(more) / math.Sqrt(float64(n)), mean(daemon)}
		}
	}
	return all
}

// ratios returns a[i]/b[i] for as many as there are of both.
func ratios(a, b []float64) []float64 {
	all := make([]float64, min(len(a), len(b)))
	for i := range all {
		all[i] = a[i] / b[i]
	}
	return all
}
