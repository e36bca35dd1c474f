package wasmbench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }

// program is a guest with its way to run.
type program struct {
	name   string
	binary []byte
	path   func(context.Context) (string, error) // of the binary, until it is loaded; nil: it is loaded
	// run does a number of rounds of the program's work, in a new instance, and checks
	// the results.
	run func(ctx context.Context, b build, rounds int) error
}

// loadPrograms builds and fetches the programs with these names, or all.
func loadPrograms(ctx context.Context, names []string) ([]program, error) {
	all := []program{
		small("matrix", "run", 2016*2016+64*85344, 64, 20),
		small("fib", "fib", 196418, 27),
	}
	for i, g := range guests.Real(1) {
		all = append(all, program{name: g.Name, path: g.Path, run: func(ctx context.Context, b build, rounds int) error {
			return runGuest(ctx, b, guests.Real(rounds)[i])
		}})
	}
	chosen, err := choose(all, names)
	if err != nil {
		return nil, err
	}
	for i := range chosen {
		if err := chosen[i].load(ctx); err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

func choose(all []program, names []string) ([]program, error) {
	if names[0] == "all" {
		return all, nil
	}
	var chosen []program
	for _, name := range names {
		i := slices.IndexFunc(all, func(p program) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no guest %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// load obtains the module of a real guest.
func (p *program) load(ctx context.Context) error {
	if p.path == nil {
		return nil
	}
	path, err := p.path(ctx)
	if err != nil {
		return err
	}
	if p.binary, err = os.ReadFile(path); err != nil {
		return fmt.Errorf("read guest: %w", err)
	}
	return nil
}

// small is a hand-written guest: a round is one call of an export.
func small(name, export string, want uint64, args ...uint64) program {
	run := func(ctx context.Context, b build, rounds int) error {
		module, err := b.runtime.InstantiateModule(ctx, b.compiled, wazero.NewModuleConfig().WithName(""))
		if err != nil {
			return fmt.Errorf("instantiate %s: %w", name, err)
		}
		defer module.Close(ctx)
		for range rounds {
			results, err := module.ExportedFunction(export).Call(ctx, args...)
			if err != nil {
				return fmt.Errorf("run %s: %w", name, err)
			}
			if results[0] != want {
				return fmt.Errorf("%s returned %d, want %d", name, results[0], want)
			}
		}
		return nil
	}
	return program{name: name, binary: guests.Small(name), run: run}
}

func runGuest(ctx context.Context, b build, g guests.Guest) error {
	output, err := g.Run(ctx, b.runtime, b.compiled)
	if err != nil {
		return err
	}
	if output != g.Want {
		return fmt.Errorf("%s: output differs from what is known", g.Name)
	}
	return nil
}
