// Rebuilt compares two builds of a Go program: how many functions are the same by the bytes of their code,
// without the operands that leave them, and with names in their place, as [ccmap.Method] has bodies; and how
// much of a profile of the older build still fits the newer one.
//
// usage: go -C scripts run ./rebuilt OLD NEW [PROFILE]
package main

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/gosym/body"
)

func main() {
	if len(os.Args) < 3 || len(os.Args) > 4 {
		fmt.Fprintln(os.Stderr, "usage: rebuilt OLD NEW [PROFILE]")
		os.Exit(2)
	}
	if err := compare(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "rebuilt:", err)
		os.Exit(1)
	}
}

func compare(older, newer string, profiles []string) error {
	before, err := read(older)
	if err != nil {
		return err
	}
	after, err := read(newer)
	if err != nil {
		return err
	}
	common, equal := 0, [ways]int{}
	for name, a := range before.functions {
		b, both := after.functions[name]
		if !both {
			continue
		}
		common++
		for way := range a {
			if a[way] == b[way] {
				equal[way]++
			}
		}
	}
	fmt.Printf("%d functions, %d later, %d in both; %v to hash %d bytes\n",
		len(before.functions), len(after.functions), common, after.took.Round(time.Millisecond), after.bytes)
	for way, name := range wayNames {
		fmt.Printf("%-15s %6d the same, %.1f %%\n", name, equal[way], percent(int64(equal[way]), int64(common)))
	}
	for _, path := range profiles {
		if err := fit(path, after); err != nil {
			return err
		}
	}
	return nil
}

func percent(part, all int64) float64 { return 100 * float64(part) / float64(max(all, 1)) }

// The ways to compare functions.
const (
	asBytes = iota
	withoutOperands
	withNames
	ways
)

var wayNames = [ways]string{"bytes", "operands zeroed", "names instead"}

// program is a build.
type program struct {
	table     *gosym.Table
	functions map[string][ways]uint64
	bytes     int
	took      time.Duration // to hash with names
}

// unnamed says of all that lies outside a function the same: nothing, or that there is something.
type unnamed string

func (n unnamed) Name(uint64) (string, uint64) { return string(n), 0 }

func read(path string) (*program, error) {
	table, err := gosym.OpenFile(context.Background(), path, gosym.Options{})
	if err != nil {
		return nil, err
	}
	p := &program{table: table, functions: make(map[string][ways]uint64)}
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := f.Section(".text")
	if text == nil {
		return nil, fmt.Errorf("%s has no .text", path)
	}
	code, err := text.Data()
	if err != nil {
		return nil, err
	}
	for pc := text.Addr; pc < text.Addr+text.Size; {
		fn, ok := table.Func(pc)
		if !ok || fn.End > text.Addr+text.Size { // C
			pc++
			continue
		}
		pc = fn.End
		if _, twice := p.functions[fn.Name]; twice || fn.ID == gosym.FuncWrapper {
			continue
		}
		c := body.Code{Entry: fn.Entry, Bytes: code[fn.Entry-text.Addr : fn.End-text.Addr]}
		start := time.Now()
		named := c.Hash(table)
		p.took += time.Since(start)
		p.bytes += len(c.Bytes)
		p.functions[fn.Name] = [ways]uint64{c.Hash(unnamed("")), c.Hash(unnamed("x")), named}
	}
	return p, nil
}

// noCalls is a build that does not tell calls.
type noCalls struct{ ccmap.Build }

func (noCalls) MayCall(ccmap.Method, uint32, ccmap.Method) (may, known bool) { return false, false }

// fit prints how much of a profile of the older build still holds.
func fit(path string, p *program) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	m, _, err := export.Read(file, export.ReadOptions{})
	if err != nil {
		return err
	}
	s := m.Snapshot()
	start := time.Now()
	code, err := p.table.Code(context.Background(), func(name string) bool {
		_, known := s.Names().Lookup(name, "")
		return known
	})
	if err != nil {
		return err
	}
	took := time.Since(start)
	hashed, changed := 0, 0
	for id := range ccmap.MethodID(s.Names().Len()) {
		old := s.Names().At(id)
		now, known := code.Method(old.Name, old.Signature)
		if known && old.Body != 0 {
			hashed++
			if old.Body != now.Body {
				changed++
			}
		}
	}
	fmt.Printf("%s: %d samples; %d functions with a body in both, %d of them changed; %v to read the new build\n",
		path, s.Total().Samples, hashed, changed, took.Round(time.Millisecond))
	for _, way := range []struct {
		name  string
		build ccmap.Build
	}{{"by bodies", noCalls{code}}, {"and by calls", code}} {
		kept, stale := ccmap.Fit(s, way.build)
		fmt.Printf("%-15s %.1f %% of the weight fits; stale:", way.name, percent(kept.Snapshot().Total().Time, s.Total().Time))
		for _, m := range stale[:min(len(stale), 6)] {
			fmt.Printf(" %s %.1f %%", m.Method.Name, percent(m.Total.Time, s.Total().Time))
		}
		fmt.Println()
	}
	return nil
}
