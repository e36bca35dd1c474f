package taker

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
)

// unnamed counts the samples in files without symbols, such as a stripped libc.
//
//	warning   written by the engine's goroutine, read by Stats
//	all else  the engine's
type unnamed struct {
	samples uint64
	in      map[ccmap.MethodID]uint64 // samples of the method that stands for a file
	warning atomic.Pointer[string]
}

const (
	leastUnnamed = 0.01 // of the samples, for a file to be told of
	mostUnnamed  = 3    // files that are told of
	fewSamples   = 100  // say nothing about shares
)

// count takes in a sample by its frames. The innermost one may be the kernel's.
func (u *unnamed) count(names *ccmap.Names, frames []ccmap.Frame) {
	u.samples++
	for _, f := range frames {
		switch m := names.At(f.Method); {
		case m.IsKernel():
			continue
		case m.IsUnknown() && m.Signature != "":
			if u.in == nil {
				u.in = make(map[ccmap.MethodID]uint64)
			}
			u.in[f.Method]++
		}
		return
	}
}

// review says which files lack names, and the remedy of each. The text has no figures, so that sessions one
// after another say the same.
func (u *unnamed) review(names *ccmap.Names, r process.Runtime) {
	of, ok := r.(process.Nameless)
	if !ok || u.samples < fewSamples {
		return
	}
	var large []ccmap.MethodID
	for id, n := range u.in {
		if float64(n) >= leastUnnamed*float64(u.samples) {
			large = append(large, id)
		}
	}
	slices.SortFunc(large, func(a, b ccmap.MethodID) int { return cmp.Or(cmp.Compare(u.in[b], u.in[a]), cmp.Compare(a, b)) })
	var lines []string
	for _, id := range large[:min(len(large), mostUnnamed)] {
		file := names.At(id).Signature
		if remedy := of.Remedy(file); remedy != "" {
			lines = append(lines, path.Base(file)+" has no symbols here, so most of its functions are "+ccmap.UnknownName+": "+remedy)
		}
	}
	slices.Sort(lines)
	text := strings.Join(lines, "; ")
	u.warning.Store(&text)
}

// text returns the last review's.
func (u *unnamed) text() string {
	if text := u.warning.Load(); text != nil {
		return *text
	}
	return ""
}
