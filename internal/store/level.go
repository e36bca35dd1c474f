package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// Level says how long a time a file covers.
type Level uint8

// The levels.
const (
	LevelPeriod Level = iota // as it was filed
	LevelHour                // the periods that began in one hour, UTC
	LevelDay                 // the periods that began on one day, UTC
)

// levels has the name of each level, how long a time its files cover, and how old they are at least.
var levels = [...]struct {
	name         string
	length, from time.Duration
}{{name: "period"}, {"hour", time.Hour, 24 * time.Hour}, {"day", 24 * time.Hour, 7 * 24 * time.Hour}}

// String returns the name of the level, for example "day".
func (l Level) String() string { return levels[l].name }

const (
	// mostNotes bounds the changes of the interval and the comments of a merge.
	mostNotes = 64
	// mostParts bounds the files of one merge, and so what is said about it.
	mostParts = 2048
)

// merging announces a merge of files. As soon as the file at Path exists, the parts count for nothing.
type merging struct {
	Path  string
	Parts []string
}

// Compacted says what Compact has done.
type Compacted struct{ Hours, Days, Parts, Skipped int }

// Compact merges the periods of each hour that is over for a day into one file, and those of each day that is over for
// seven. It stops between two merges when ctx is done. A file that cannot be read stays as it is, and is counted.
func (s *Store) Compact(ctx context.Context, now time.Time) (Compacted, error) {
	var done Compacted
	s.filing.Lock()
	err := s.endMerge() // one that failed
	files := walk(s.disk).files
	s.filing.Unlock()
	if err != nil {
		return done, fmt.Errorf("compact store: %w", err)
	}
	merges := append(oldFiles(files, LevelDay, now), oldFiles(files, LevelHour, now)...)
	for i, m := range merges {
		if s.Progress != nil {
			s.Progress(i, len(merges))
		}
		if err := ctx.Err(); err != nil {
			return done, fmt.Errorf("compact store: %w", err)
		}
		parts, skipped, err := s.mergeOld(m)
		done.Skipped += skipped
		if err != nil {
			return done, fmt.Errorf("compact store: %w", err)
		}
		if parts == 0 {
			continue
		}
		done.Parts += parts
		if m.level == LevelDay {
			done.Days++
		} else {
			done.Hours++
		}
	}
	return done, nil
}

// oldMerge is files of one key that become one of a level.
type oldMerge struct {
	level Level
	files []found
}

// levelAt returns the level that a file should have, by its age.
func (f *found) levelAt(now time.Time) Level {
	for l := LevelDay; l > LevelPeriod; l-- {
		over := f.from.UTC().Truncate(levels[l].length).Add(levels[l].length)
		if now.Sub(later(over, f.to)) >= levels[l].from {
			return l
		}
	}
	return LevelPeriod
}

// oldFiles returns the files that are to become one of a level, where there is more than one.
func oldFiles(files []found, level Level, now time.Time) (merges []oldMerge) {
	type place struct {
		dirKey
		dir string
		at  time.Time
	}
	all := make(map[place][]found)
	var order []place
	for _, f := range files {
		k := place{f.dirKey(), path.Dir(f.path), f.from.UTC().Truncate(levels[level].length)}
		if f.best || f.level > level || f.levelAt(now) != level {
			continue
		}
		if len(all[k]) == 0 {
			order = append(order, k)
		}
		all[k] = append(all[k], f)
	}
	for _, k := range order {
		if len(all[k]) > 1 {
			merges = append(merges, oldMerge{level, all[k][:min(len(all[k]), mostParts)]}) // the next Compact has the rest
		}
	}
	return merges
}

// mergeOld merges files of one key into one, and returns how many.
func (s *Store) mergeOld(of oldMerge) (parts, skipped int, err error) {
	s.filing.Lock()
	defer s.filing.Unlock()
	m, plan, files := ccmap.New(ccmap.Options{}), merging{}, of.files
	from, to := files[0].from, files[0].to
	for _, f := range files {
		part, err := readMap(s.disk, f.path, export.ReadOptions{})
		if err == nil {
			err = m.Merge(part.Snapshot())
		}
		if err != nil {
			s.log.Warn("cannot merge a stored profile", "path", f.path, "error", err)
			skipped++
			continue
		}
		plan.Parts = append(plan.Parts, f.path)
		if f.from.Before(from) {
			from = f.from
		}
		if f.to.After(to) {
			to = f.to
		}
	}
	if len(plan.Parts) < 2 {
		return 0, skipped, nil
	}
	BoundMeta(m.Meta())
	plan.Path, err = s.newName(path.Dir(files[0].path), fileName{from: from, to: to, level: of.level, owner: files[0].owner})
	if err != nil {
		return 0, skipped, err
	}
	if err := s.mergeAs(plan, m.Snapshot()); err != nil {
		return 0, skipped, err
	}
	if err := s.noteQuality(plan.Path, QualityOf(m.Snapshot()), *m.Meta()); err == nil {
		s.writeIndex()
	}
	return len(plan.Parts), skipped, nil
}

// mergeAs announces a merge, writes its file, and removes the parts.
func (s *Store) mergeAs(plan merging, sum *ccmap.Snapshot) error {
	err := s.replace(mergeName, func(w io.Writer) error { return json.NewEncoder(w).Encode(plan) })
	if err != nil {
		return err
	}
	if err := s.replace(plan.Path, func(w io.Writer) error { return writeProfile(w, sum) }); err != nil {
		s.disk.Remove(plan.Path)
		return errors.Join(err, s.endMerge())
	}
	return s.endMerge()
}

// endMerge ends a merge that was announced: if its file exists, the parts go.
func (s *Store) endMerge() error {
	plan, err := readMerging(s.disk)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return errors.Join(err, s.disk.Remove(mergeName)) // it says nothing: then nothing was removed for it
	}
	if err := s.decideMerge(plan); err != nil {
		return err
	}
	if err := s.disk.Remove(mergeName); err != nil {
		return err
	}
	return s.disk.SyncDir(".")
}

// decideMerge makes it durable whether the file of a merge is there. If so, it removes the parts for good.
func (s *Store) decideMerge(plan merging) error {
	dir := path.Dir(plan.Path)
	if err := s.disk.SyncDir(dir); err != nil {
		return err
	}
	if !exists(s.disk, plan.Path) {
		return nil
	}
	for _, part := range plan.Parts {
		if err := s.disk.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return s.disk.SyncDir(dir)
}

// readMerging returns the merge that was announced. Its paths are files of the store.
func readMerging(d fileSystem) (plan merging, err error) {
	f, err := d.Open(mergeName)
	if err != nil {
		return plan, err
	}
	defer f.Close()
	const most = 16 << 20
	if err := json.NewDecoder(io.LimitReader(f, most)).Decode(&plan); err != nil {
		return merging{}, fmt.Errorf("read %s: %w", mergeName, err)
	}
	for _, part := range plan.Parts {
		if path.Dir(part) != path.Dir(plan.Path) || part == plan.Path || !isFile(part) {
			return merging{}, fmt.Errorf("read %s: %q is no part of a merge", mergeName, part)
		}
	}
	return plan, nil
}

// isFile reports whether a path can be one of a period.
func isFile(name string) bool {
	n, ok := parseFileName(path.Base(name))
	return ok && !n.best && path.Clean(name) == name && strings.HasPrefix(name, targetsDir+"/")
}

// StripMeta leaves in a description what is of all machines, and bounds it.
func StripMeta(m *ccmap.Meta) {
	m.Target = ccmap.Target{BuildID: m.Target.BuildID, Runtime: m.Target.Runtime, Commit: m.Target.Commit}
	m.Comments, m.Ended = nil, ""
	BoundMeta(m)
}

// BoundMeta bounds what grows with each merge: the changes of the interval and the comments. Of the changes it keeps
// those that change something, and of these the first, the last, and some between.
func BoundMeta(m *ccmap.Meta) {
	m.Interval = slices.CompactFunc(m.Interval, func(a, b ccmap.IntervalChange) bool { return a.Interval == b.Interval })
	if n := len(m.Interval); n > mostNotes {
		kept := make([]ccmap.IntervalChange, mostNotes)
		for i := range kept {
			kept[i] = m.Interval[i*(n-1)/(mostNotes-1)]
		}
		m.Interval = kept
	}
	m.Comments = m.Comments[:min(len(m.Comments), mostNotes)]
}
