package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/process"
)

// A program may do one thing for hours, and then another. Such a build has phases, each with a best file of its own:
// phase-1.json.zst, and so on. The best file of the build is then one more name of one of them: the phase that the
// program was last in. A build without phase files has one phase, its best file.

const (
	// mostPhases bounds the phases of a build.
	mostPhases = 4
	// unlikeAll is how many periods in a row, unlike all phases, begin a phase. A change that was seen while a period
	// was counted stands for one of them.
	unlikeAll = 2
	// PhaseSamples is how many samples of a new run tell which phase it is in.
	PhaseSamples = 200
)

// phase is the best profile of a phase.
type phase struct {
	number int    // 0: of a build that has one phase
	path   string // of its file
	inode  uint64
}

// phases returns the phases of an owner's files in a directory, and the best file; without one its path is empty.
func (s *Store) phases(dir string, o process.Owner) (all []phase, best phase) {
	infos, err := s.disk.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("cannot list stored profiles", "path", dir, "error", err)
	}
	for _, info := range infos {
		n, ok := parseFileName(info.Name())
		if !ok || !n.best || n.owner != o || !info.Mode().IsRegular() {
			continue
		}
		p := phase{n.phase, path.Join(dir, info.Name()), inode(info)}
		if p.number > 0 {
			all = append(all, p)
		} else {
			best = p
		}
	}
	slices.SortFunc(all, func(a, b phase) int { return cmp.Compare(a.number, b.number) })
	if len(all) == 0 && best.path != "" {
		all = []phase{best}
	}
	return all, best
}

// likeness says how much a profile is like the best one of a phase.
type likeness struct {
	phase
	verdict compare.Verdict
	overlap float64 // percent
}

// compareAll compares a profile with the phases. A phase whose file cannot be read is like none.
func (s *Store) compareAll(phases []phase, with *ccmap.Snapshot) (all []likeness) {
	for _, p := range phases {
		m, err := readMap(s.disk, p.path, export.ReadOptions{})
		if err == nil {
			var r compare.Result
			if r, err = compare.Compare(m.Snapshot(), with, compare.Options{Tolerance: compare.DefaultTolerance}); err == nil {
				all = append(all, likeness{p, r.Verdict, r.Decisive().Percent})
				continue
			}
		}
		s.log.Warn("cannot compare with a stored profile", "path", p.path, "error", err)
	}
	return all
}

// most returns the phase that a profile is most like.
func most(all []likeness) phase {
	return slices.MaxFunc(all, func(a, b likeness) int {
		return cmp.Or(cmp.Compare(a.overlap, b.overlap), cmp.Compare(b.number, a.number))
	}).phase
}

// phaseOf returns the phase that a period is of. A period that has too few samples to tell is of the phase of before.
// One that is unlike all phases is of none.
func (s *Store) phaseOf(phases []phase, best phase, period *ccmap.Snapshot) (p phase, found bool) {
	current := phases[0]
	for _, p := range phases {
		if p.inode == best.inode {
			current = p
		}
	}
	if period.Total().Samples < PhaseSamples {
		return current, true
	}
	all := s.compareAll(phases, period)
	same := slices.DeleteFunc(slices.Clone(all), func(l likeness) bool { return l.verdict != compare.Same })
	switch {
	case len(same) > 0:
		return most(same), true
	case len(all) == 0 || slices.ContainsFunc(all, func(l likeness) bool { return l.verdict == compare.TooFew }):
		return current, true
	}
	return phase{}, false
}

// Changed notes that the program of a key was seen to do something else than before: the next period that is unlike
// all phases begins one.
func (s *Store) Changed(k Key) {
	s.filing.Lock()
	defer s.filing.Unlock()
	at := k.ofPhases()
	s.unlike[at] = max(s.unlike[at], unlikeAll-1)
}

// phaseKey names the phases of an owner's build.
type phaseKey struct {
	dir   string
	owner process.Owner
}

// ofPhases returns the name of a key's phases. Files name an owner only if other users may see the profile.
func (k Key) ofPhases() phaseKey {
	if ownerMark(k.Owner) == "" {
		return phaseKey{k.dir(), process.Unowned}
	}
	return phaseKey{k.dir(), k.Owner}
}

// evaluate makes a file the best one of its phase, if it supersedes the file that is, and this phase the one that is
// offered as the best of the build. The caller holds filing.
func (s *Store) evaluate(name string, q Quality, whole *ccmap.Snapshot) error {
	n, _ := parseFileName(path.Base(name))
	at := phaseKey{path.Dir(name), n.owner}
	phases, best := s.phases(at.dir, at.owner)
	if len(phases) == 0 {
		delete(s.unlike, at)
		return s.linkAs(name, at.name(0))
	}
	p, found := s.phaseOf(phases, best, whole)
	if !found {
		if s.unlike[at]++; s.unlike[at] < unlikeAll || len(phases) == mostPhases {
			return nil
		}
		delete(s.unlike, at)
		return s.beginPhase(at, phases, name)
	}
	delete(s.unlike, at)
	if was, ok := s.qualityOf(p.path); !ok || Supersedes(q, was) {
		if err := s.linkAs(name, p.path); err != nil {
			return err
		}
		if p.number > 0 {
			return s.linkAs(name, at.name(0))
		}
		return nil
	}
	return s.offer(at, p, best)
}

// name returns the name of the best file of a phase.
func (k phaseKey) name(number int) string {
	return path.Join(k.dir, fileName{best: true, phase: number, owner: k.owner}.String())
}

// beginPhase makes a file the best one of a new phase, and offers it.
func (s *Store) beginPhase(at phaseKey, phases []phase, name string) error {
	last := phases[len(phases)-1]
	if last.number == 0 { // the best file gets the name of the first phase
		last.number = 1
		if err := s.linkAs(last.path, at.name(last.number)); err != nil {
			return err
		}
	}
	if err := s.linkAs(name, at.name(last.number+1)); err != nil {
		return err
	}
	return s.linkAs(name, at.name(0))
}

// offer makes a phase the one that is offered as the best of the build.
func (s *Store) offer(at phaseKey, p, best phase) error {
	if p.inode == best.inode {
		return nil
	}
	return s.linkAs(p.path, at.name(0))
}

// linkAs gives a file a second name. A file that has this name loses it in the same moment. Of two names of one file
// rename(2) would leave both.
func (s *Store) linkAs(name, second string) error {
	if s.isSame(name, second) {
		return nil
	}
	temp := path.Join(path.Dir(second), tempName)
	if err := s.disk.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.disk.Link(name, temp); err != nil {
		return err
	}
	if err := s.disk.Rename(temp, second); err != nil {
		s.disk.Remove(temp)
		return err
	}
	if err := s.disk.SyncDir(path.Dir(second)); err != nil {
		return err
	}
	s.index.copy(name, second)
	return nil
}

// isSame reports whether two names are of one file.
func (s *Store) isSame(a, b string) bool {
	x, err := s.disk.Stat(a)
	y, err2 := s.disk.Stat(b)
	return err == nil && err2 == nil && inode(x) != 0 && inode(x) == inode(y)
}

// isClosed reports whether the store was closed: another process may write to it.
func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Offer makes the phase that a new run is most like the best of its build, for all that ask for it. The run has
// [PhaseSamples] samples or some more. It does nothing for a build that has one phase.
func (s *Store) Offer(k Key, run *ccmap.Snapshot) error {
	s.filing.Lock()
	defer s.filing.Unlock()
	at := k.ofPhases()
	phases, best := s.phases(at.dir, at.owner)
	if len(phases) < 2 || s.isClosed() {
		return nil
	}
	all := s.compareAll(phases, run)
	if len(all) == 0 {
		return nil // which was logged
	}
	if err := s.offer(at, most(all), best); err != nil {
		return fmt.Errorf("offer the best profile of a phase: %w", err)
	}
	s.writeIndex()
	return nil
}
