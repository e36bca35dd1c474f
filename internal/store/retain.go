package store

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"syscall"
	"time"
)

// retention tells how old files are. The wall clock may be wrong: a jump ahead must not make all files
// old at once. So the time that files are compared with goes ahead as this process runs, and begins
// with the latest file that there was, where the wall clock is not behind it.
type retention struct {
	at  time.Time     // that files are compared with; zero: not known yet
	ran time.Duration // how long this process had run then
}

// now returns the time that files are compared with.
func (r *retention) now(wall time.Time, ran time.Duration, latest time.Time) time.Time {
	if r.at.IsZero() {
		r.at = latest
	} else {
		r.at = r.at.Add(ran - r.ran)
	}
	if r.ran = ran; wall.Before(r.at) {
		r.at = wall
	}
	return r.at
}

const (
	// bestBuilds is how many builds of a target keep their best files, whatever their age.
	bestBuilds = 2
	// looksAtOnce bounds the files that are read for the index in one go.
	looksAtOnce = 32
)

// SetBounds changes how long files and moments are kept, and how large all may be together.
func (s *Store) SetBounds(keep, moments time.Duration, maxBytes int64) {
	s.filing.Lock()
	defer s.filing.Unlock()
	s.Keep, s.Moments, s.MaxBytes = keep, moments, maxBytes
}

// Retain removes the files that are older than permitted, and then the oldest, until the rest is small enough, the
// log included. Moments go first, the oldest of them: they have a tenth of the room. So has what a hub knows of fan-in.
// The best files of the last two builds of a target stay; the best file of another build goes with the last of its
// periods. Temporary files that kills have left go. It touches no file of another name, and looks at some files that the
// index does not know.
func (s *Store) Retain(wall time.Time) {
	s.filing.Lock()
	defer s.filing.Unlock()
	if err := s.endMerge(); err != nil {
		s.log.Error("cannot end the merge of files that was begun", "error", err)
		return
	}
	w := walk(s.disk)
	if w.first != nil {
		s.log.Warn("skipped names in the store", "names", w.skipped, "first", w.first)
	}
	r := &retaining{Store: s, sizes: newSizes(w.files, s.LogBytes()+sizeOf(w.records)+sizeOf(w.moments)+sizeOf(w.fanIns))}
	r.now = s.retention.now(wall, time.Since(s.opened), latestOf(wall, slices.Concat(w.files, w.moments)))
	r.removeTemps(w.temps)
	r.removeMoments(w.moments)
	fanIns := r.removeFanIns(w.fanIns)
	r.removeOld(w.files)
	r.removeBeside(slices.Concat(w.records, fanIns))
	s.index.keep(r.there)
	if s.fillIndex(r.there) || r.removed > 0 {
		s.writeIndex()
	}
}

func sizeOf(files []found) (bytes int64) {
	for _, f := range files {
		bytes += f.info.Size()
	}
	return bytes
}

func latestOf(wall time.Time, files []found) time.Time {
	latest := time.Time{}
	for _, f := range files {
		if !f.best && f.to.After(latest) {
			latest = f.to
		}
	}
	if latest.IsZero() {
		return wall
	}
	return latest
}

// retaining is one removal of files.
type retaining struct {
	*Store
	sizes
	now     time.Time
	there   map[string]bool // paths that stay
	removed int
}

// removeTemps removes temporary files that kills have left. Under the lock only [Add] writes others.
func (r *retaining) removeTemps(temps []found) {
	for _, f := range temps {
		if !isLeft(f.info) {
			continue
		}
		if err := r.disk.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.log.Error("cannot remove what a kill has left of a file", "error", err)
			continue
		}
		r.removeEmpty(f.path)
	}
}

// removeOld removes files, the oldest first.
func (r *retaining) removeOld(files []found) {
	r.there = make(map[string]bool)
	for _, f := range files {
		r.there[f.path] = true
	}
	for _, f := range inOrderOfAge(files) {
		old := r.Keep > 0 && r.now.Sub(f.end) > r.Keep
		if !old && (r.MaxBytes <= 0 || r.total <= r.MaxBytes) {
			return
		}
		if f.kept {
			continue
		}
		if err := r.disk.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.log.Error("cannot remove old file", "error", err)
			continue
		}
		delete(r.there, f.path)
		r.removed++
		r.unlink(f.info)
		r.removeEmpty(f.path)
	}
}

// removeEmpty removes the directories above a file that have nothing else.
func (r *retaining) removeEmpty(name string) {
	for dir := path.Dir(name); dir != targetsDir && r.disk.Remove(dir) == nil; dir = path.Dir(dir) {
	}
}

// aged is a file with its age.
type aged struct {
	found
	end  time.Time // of the last period of a best file's build
	kept bool
}

// inOrderOfAge returns files, the oldest first. A best file is as old as the latest period of its directory.
func inOrderOfAge(files []found) []aged {
	ends, all := endsOfBuilds(files), make([]aged, 0, len(files))
	for _, f := range files {
		a := aged{found: f, end: f.to}
		if f.best {
			end := ends[buildKey{f.target, f.build}]
			a.end, a.kept = end.at, end.rank < bestBuilds
		}
		all = append(all, a)
	}
	bestLast := func(f *aged) int {
		if f.best {
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(a, b aged) int {
		return cmp.Or(a.end.Compare(b.end), cmp.Compare(bestLast(&a), bestLast(&b)), cmp.Compare(a.path, b.path))
	})
	return all
}

type buildKey struct{ target, build string }

// buildEnd says when a build was last seen.
type buildEnd struct {
	at   time.Time
	rank int // among the builds of its target, from 0, the latest
}

// endsOfBuilds returns when each build was last seen: the end of its last period, or where it has none the time of
// its best file.
func endsOfBuilds(files []found) map[buildKey]buildEnd {
	ends, written := make(map[buildKey]buildEnd), make(map[buildKey]time.Time)
	for _, f := range files {
		k := buildKey{f.target, f.build}
		if f.best {
			written[k] = later(written[k], f.info.ModTime())
		} else {
			ends[k] = buildEnd{at: later(ends[k].at, f.to)}
		}
	}
	for k, at := range written {
		if _, known := ends[k]; !known {
			ends[k] = buildEnd{at: at}
		}
	}
	targets := make(map[string][]buildKey)
	for k := range ends {
		targets[k.target] = append(targets[k.target], k)
	}
	for _, builds := range targets {
		slices.SortFunc(builds, func(a, b buildKey) int {
			return cmp.Or(ends[b].at.Compare(ends[a].at), cmp.Compare(a.build, b.build))
		})
		for i, k := range builds {
			ends[k] = buildEnd{ends[k].at, i}
		}
	}
	return ends
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sizes counts the bytes of files. A best file is a second name of a period's file, or the last one.
type sizes struct {
	total int64
	names map[uint64]int // by inode
}

func newSizes(files []found, other int64) sizes {
	z := sizes{total: other, names: make(map[uint64]int)}
	for _, f := range files {
		if n := inode(f.info); z.names[n] == 0 {
			z.total += f.info.Size()
		}
		z.names[inode(f.info)]++
	}
	return z
}

// unlink notes that a name of a file is gone.
func (z *sizes) unlink(info fs.FileInfo) {
	n := inode(info)
	if z.names[n]--; z.names[n] == 0 {
		z.total -= info.Size()
	}
}

// inode returns the number of a file on its file system.
func inode(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}

// fillIndex looks at some files that the index does not know, and reports whether there were any.
func (s *Store) fillIndex(there map[string]bool) bool {
	looked := 0
	for name := range there {
		if _, known := s.index.files[name]; known {
			continue
		}
		if looked++; looked > looksAtOnce {
			break
		}
		s.takeIn(name)
	}
	return looked > 0
}
