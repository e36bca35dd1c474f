package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// merger adds up profiles. Goroutines read them ahead; the one that runs it adds
// them to the sum, in their order.
type merger struct {
	env       *environment
	inputs    []mergeInput
	keepGoing bool
	options   export.ReadOptions
	sum       *ccmap.Map
	memory    mergeMemory
	merged    int // profiles in the sum
	bad       int // profiles that were left out
	progress  progressLine
}

// readPart is a profile that was read, or could not be.
type readPart struct {
	*export.Part
	err   error
	ahead bool // else it is read in its turn
	units int  // of memory that it may take
}

func (m *merger) run() error {
	m.progress.w = terminal.Unguarded(m.env.stderr)
	quit := make(chan struct{})
	defer close(quit)
	ahead := m.readAhead(quit)
	for _, in := range m.inputs {
		err := m.add(in, <-<-ahead)
		if err == nil {
			err = m.checkSum()
		} else {
			err = m.count(err)
		}
		if err != nil {
			m.progress.clear()
			return err
		}
		m.progress.draw(m.state)
	}
	m.progress.clear()
	return nil
}

// add adds a profile to the sum. One that has had too little memory ahead is read again.
func (m *merger) add(in mergeInput, part readPart) error {
	err := m.addPart(in, part)
	m.memory.release(part.units)
	if !part.ahead || errors.Is(err, export.ErrMemory) {
		err = m.addPart(in, m.read(in, m.memory.alone(m.sum)))
	}
	if err != nil {
		return explainMerge(err)
	}
	m.merged++
	return nil
}

func (m *merger) addPart(in mergeInput, part readPart) error {
	if part.err != nil || part.Part == nil {
		return part.err
	}
	if err := part.AddTo(m.sum, in.weight); err != nil {
		return fmt.Errorf("merge %s: %w", in.name(), err)
	}
	return nil
}

// explainMerge adds advice to an error in reading or adding a profile.
func explainMerge(err error) error {
	if errors.Is(err, ccmap.ErrUnlike) {
		return withHint(err, oneKind)
	}
	return explainRead(err)
}

// readAhead reads the inputs, each in a goroutine of its own, and returns where
// each will appear, in their order. At any time twice as many are under way, or
// wait to be added, as there are CPUs, and one more: enough that none waits for
// the next to be added. A pipe is not read ahead: it could not be read again if the
// memory ahead were too little.
func (m *merger) readAhead(quit <-chan struct{}) <-chan chan readPart {
	ahead := make(chan chan readPart, 2*runtime.GOMAXPROCS(0))
	go func() {
		for _, in := range m.inputs {
			part := make(chan readPart, 1)
			select {
			case ahead <- part:
			case <-quit:
				return
			}
			if !in.isRegular() {
				part <- readPart{}
				continue
			}
			units, ok := m.memory.acquire(in, quit)
			if !ok {
				return
			}
			go func() {
				p := m.read(in, m.memory.bytes(units))
				p.ahead, p.units = true, units
				part <- p
			}()
		}
	}()
	return ahead
}

// read reads a profile in so many bytes of memory.
func (m *merger) read(in mergeInput, memory int64) readPart {
	if in.path == stdPath {
		return m.readFrom(m.env.stdin, in, memory)
	}
	f, err := os.Open(in.path)
	if err != nil {
		return readPart{err: err}
	}
	defer f.Close()
	return m.readFrom(f, in, memory)
}

// readFrom says in its error which profile it is about.
func (m *merger) readFrom(r io.Reader, in mergeInput, memory int64) readPart {
	o := m.options
	o.MaxMemory = m.memory.limit
	o = o.WithDefaults()
	o.MaxMemory = memory
	p, err := export.ReadPart(r, o)
	if err != nil {
		return readPart{err: fmt.Errorf("%s: %w", in.name(), err)}
	}
	p.LookUp(m.sum.Names())
	return readPart{Part: p}
}

func (in mergeInput) name() string {
	if in.path == stdPath {
		return "standard input"
	}
	return in.path
}

// count counts a profile that was not added because of err, and returns an error that
// ends the merge.
func (m *merger) count(err error) error {
	if !m.keepGoing {
		return err
	}
	m.bad++
	m.progress.clear()
	_, err = fmt.Fprintf(m.env.stderr, "left out: %s\n", terminal.PrintableError(err))
	return err
}

// leftOut returns an error that says how many profiles are not in the sum.
func (m *merger) leftOut() error {
	if m.bad == 0 {
		return nil
	}
	return fmt.Errorf("%s of %d could not be merged, and left out", figure.Plural(int64(m.bad), "profile"), len(m.inputs))
}

// state says how far it has got.
func (m *merger) state() string {
	return fmt.Sprintf("%d of %d profiles  %s nodes  %s", m.merged+m.bad, len(m.inputs),
		figure.Count(int64(m.sum.Len()-1)), figure.Bytes(m.sum.Bytes()))
}
