// Package mergefiles adds profiles of files up into one map: thousands of them, read on all
// CPUs and added in their order, in bounded memory.
package mergefiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/feedback/gopgo"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// Options say how profiles are merged.
type Options struct {
	Inputs    []Input
	From      *client.Reader // which has fetched the remote ones
	Stderr    io.Writer      // progress on a terminal, and the profiles that were left out
	KeepGoing bool           // leave out profiles that cannot be merged
	Read      export.ReadOptions
	MaxMemory int64 // bytes, of the sum and of all profiles while they are read
	// MaxSum is how many bytes the sum is pruned to; 0: no pruning. They come on top of MaxMemory,
	// with up to 24 MiB for the stacks that the sum remembers.
	MaxSum int64
}

// Merger adds up profiles. Goroutines read them ahead. The goroutine that runs it adds them
// to the sum, in their order.
type Merger struct {
	Options
	Sum    *ccmap.Map
	Merged int // profiles in the sum

	sum      *export.Sum // adds to Sum
	programs programs    // of the parts
	bad      int         // profiles that were left out
	memory   memory
	progress terminal.Progress
}

// New returns a merger with an empty sum.
func New(o Options) *Merger {
	sum := ccmap.New(ccmap.Options{MaxBytes: o.MaxSum})
	return &Merger{
		programs: make(programs), Options: o, Sum: sum, sum: export.NewSum(sum), progress: terminal.Progress{W: terminal.Unguarded(o.Stderr)},
		memory: memory{limit: o.MaxMemory, pruned: o.MaxSum > 0, taken: make(chan struct{}, aheadUnits)},
	}
}

// InputError says that a profile cannot be read or added, or a list of profiles not opened.
type InputError struct{ error }

func (e InputError) Unwrap() error { return e.error }

// readPart is a profile that was read, or could not be.
type readPart struct {
	*export.Part
	err   error
	ahead bool // else it is read in its turn
	units int  // of memory that it may take
}

// Run adds all profiles to the sum. It ends at the first error, unless KeepGoing is set.
func (m *Merger) Run() error {
	quit := make(chan struct{})
	defer close(quit)
	ahead := m.readAhead(quit)
	for _, in := range m.Inputs {
		err := m.add(in, <-<-ahead)
		if err == nil {
			err = m.checkSum()
		} else {
			err = m.count(err)
		}
		if err != nil {
			m.progress.Clear()
			return err
		}
		m.progress.Draw(m.state)
	}
	m.progress.Clear()
	m.programs.describe(m.Sum.Meta())
	return nil
}

// add adds a profile to the sum. A profile that had too little memory ahead is read again.
func (m *Merger) add(in Input, part readPart) error {
	err := m.addPart(in, part)
	m.memory.release(part.units)
	if !part.ahead || errors.Is(err, export.ErrMemory) {
		err = m.addPart(in, m.readInput(in, m.memory.alone(m.sum)))
	}
	if err != nil {
		return InputError{err}
	}
	m.Merged++
	return nil
}

func (m *Merger) addPart(in Input, part readPart) error {
	if part.err != nil || part.Part == nil {
		return part.err
	}
	if gopgo.HasRanks(part.Meta()) {
		return fmt.Errorf("merge %s: %w", in.name(), gopgo.ErrRanks)
	}
	of := part.Meta().Target
	if err := m.sum.Add(part.Part, in.Weight); err != nil {
		return fmt.Errorf("merge %s: %w", in.name(), err)
	}
	m.programs.add(of)
	return nil
}

// readAhead reads the inputs, each in a goroutine of its own, and returns a channel for
// each, in their order. Twice as many profiles as there are CPUs, and one more, are read or
// wait to be added at any time: enough that no reader waits. A pipe is not read ahead: it
// could not be read again if the memory ahead were too little.
func (m *Merger) readAhead(quit <-chan struct{}) <-chan chan readPart {
	ahead := make(chan chan readPart, 2*runtime.GOMAXPROCS(0))
	go func() {
		for _, in := range m.Inputs {
			part := make(chan readPart, 1)
			select {
			case ahead <- part:
			case <-quit:
				return
			}
			size, again := m.From.Size(in.Path)
			if !again {
				part <- readPart{}
				continue
			}
			units, ok := m.memory.acquire(size, quit)
			if !ok {
				return
			}
			go func() {
				p := m.readInput(in, m.memory.bytes(units))
				p.ahead, p.units = true, units
				part <- p
			}()
		}
	}()
	return ahead
}

// readInput reads a profile in so many bytes of memory.
func (m *Merger) readInput(in Input, memory int64) readPart {
	f, err := m.From.Open(context.Background(), in.Path, memory)
	if err != nil {
		return readPart{err: err}
	}
	defer f.Close()
	return m.readFrom(f, in, memory)
}

// readFrom names the profile in its error.
func (m *Merger) readFrom(r io.Reader, in Input, memory int64) readPart {
	o := m.Read
	o.MaxMemory = m.memory.limit
	o = o.WithDefaults()
	o.MaxMemory = memory
	p, err := export.ReadPart(r, o)
	if err != nil {
		return readPart{err: fmt.Errorf("%s: %w", in.name(), err)}
	}
	p.LookUp(m.Sum.Names())
	return readPart{Part: p}
}

// count counts a profile that was not added because of err, and returns an error that
// ends the merge.
func (m *Merger) count(err error) error {
	if !m.KeepGoing {
		return err
	}
	m.bad++
	m.progress.Clear()
	_, err = fmt.Fprintf(m.Stderr, "left out: %s\n", terminal.PrintableError(err))
	return err
}

// LeftOut returns an error that says how many profiles are not in the sum; nil if all are.
func (m *Merger) LeftOut() error {
	if m.bad == 0 {
		return nil
	}
	return fmt.Errorf("%s of %d could not be merged, and left out", figure.Plural(int64(m.bad), "profile"), len(m.Inputs))
}

// state describes the progress, in a line.
func (m *Merger) state() string {
	return fmt.Sprintf("%d of %d profiles  %s nodes  %s", m.Merged+m.bad, len(m.Inputs),
		figure.Count(int64(m.Sum.Len()-1)), figure.Bytes(m.Sum.Bytes()))
}
