package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/store/internal/deltalog"
	"github.com/ccmapd/ccmapd/internal/store/internal/disk"
)

// Kind tells entries apart.
type Kind string

// The kinds of entries.
const (
	KindPeriod  Kind = "period"  // a file
	KindBest    Kind = "best"    // the best file of a build, which may be a period's, too: sums leave it out
	KindPhase   Kind = "phase"   // the best file of a phase of a build: as KindBest
	KindFleet   Kind = "fleet"   // what a hub knew of a build, or of the nearest one, before it was sampled here
	KindRunning Kind = "running" // of the log
	KindMoments Kind = "moments" // a file of moments, of which an entry has those of its time
)

// Entry is a stored profile.
type Entry struct {
	Kind     Kind
	Target   string
	Build    string // as its directory is called; of the log the whole id
	Event    string
	Unit     ccmap.Unit // its base is empty where the index does not know the file
	Owner    process.Owner
	From, To time.Time // UTC; of a best file whose period is gone as the profile says it, or the time that it was written
	Commit   time.Time // of the build's source; zero: the program does not say, or the file must be read
	Path     string    // of the file; empty in the log
	Name     string    // of the file, below the directory of the store; empty in the log
	Size     int64     // bytes
	Level    Level
	Best     bool     // the best file of its build is this one
	Phase    int      // of a KindPhase: its number, from 1
	Quality  *Quality // nil: not known, the file must be read

	Interval time.Duration // at which the tuner had settled; 0: it decided nothing, or that is not known

	// Why says why the entry stands for a build that it is not of; empty: it is of the build that was asked for.
	Why string

	log *stored
}

// stored is an entry of the log.
type stored struct {
	key     Key
	streams []stream
}

// Reader reads a store, while any process writes to it. Any goroutine may call its methods.
type Reader struct {
	dir    string
	disk   fileSystem
	within export.ReadOptions
	writer *Store // of this process, which knows what its log has; nil: another process writes
	index  *indexCache
}

// NewReader returns a reader of a directory. The error of a directory that is missing wraps [fs.ErrNotExist].
func NewReader(dir string) (*Reader, error) {
	r := &Reader{dir: dir, disk: disk.At(dir), within: export.ReadOptions{Ahead: true}, index: new(indexCache)}
	version, err := readFormat(r.disk)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(filepath.Join(dir, targetsDir)) // of an earlier version of ccmapd
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("read store %s: %w", dir, err)
	case version > Version:
		return nil, advice.Add(fmt.Errorf("read store %s: %w", dir, ErrNewer), "Use that version of ccmapd.")
	}
	return r, nil
}

// Within returns a reader with bounds, which each Read or Sum holds to as a whole: all files and frames of the log
// together. Reserve is told, too, what is held after each of them.
func (r *Reader) Within(o export.ReadOptions) *Reader {
	other := *r
	other.within = o
	return &other
}

// Reader returns a reader of the store. To list what is running it reads no log.
func (s *Store) Reader() *Reader {
	return &Reader{dir: s.Dir, disk: s.disk, within: export.ReadOptions{Ahead: true}, writer: s, index: new(indexCache)}
}

// Filter chooses entries. Its zero value chooses all files.
type Filter struct {
	Target, Event string                   // empty: any
	Build         string                   // a beginning of it; empty: any
	Running       bool                     // those of the log, too
	Visible       func(process.Owner) bool // nil: all
}

func (f *Filter) takes(e *Entry) bool {
	return (f.Target == "" || f.Target == e.Target) && (f.Event == "" || f.Event == e.Event) &&
		(f.Build == "" || isBuild(e.Build, f.Build)) && (f.Visible == nil || f.Visible(e.Owner))
}

// isBuild reports whether a build may be meant by the beginning of an id. Names of directories are shortened.
func isBuild(build, prefix string) bool {
	name, want := BuildName(build), BuildName(prefix)
	return len(want) <= len(name) && name[:len(want)] == want
}

// Listing are the entries of a store.
type Listing struct {
	Entries []Entry // by target, event, build and time
	Skipped int     // names that are no files of a store
	First   error   // why the first of them was skipped
	Damage  string  // of the log, if it was read; empty: none
}

// List returns the entries that a filter chooses. Parts of a merge that was not ended are left out. Of one target, it
// looks into no directory of others.
func (r *Reader) List(f Filter) Listing {
	x := r.index.read(r.disk) // without it qualities are missing
	w := walkOf(r.disk, f.Target)
	l := Listing{Skipped: w.skipped, First: w.first}
	bests, merged := bestFiles(w.files), r.mergedParts()
	for i := range w.files {
		file := &w.files[i]
		if slices.Contains(merged, file.path) {
			continue
		}
		e := r.entry(file, x)
		e.Best = file.best && !file.fleet || bests[file.dirKey()] == inode(file.info)
		if f.takes(&e) {
			l.Entries = append(l.Entries, e)
		}
	}
	timeBests(l.Entries)
	if f.Running {
		l.Damage = r.running(&f, &l.Entries)
	}
	slices.SortStableFunc(l.Entries, compareEntries)
	return l
}

// bestFiles returns the inodes of the best files.
func bestFiles(files []found) map[dirKey]uint64 {
	bests := make(map[dirKey]uint64)
	for i := range files {
		if files[i].best && files[i].phase == 0 && !files[i].fleet {
			bests[files[i].dirKey()] = inode(files[i].info)
		}
	}
	return bests
}

// timeBests gives best files the times of their periods.
func timeBests(all []Entry) {
	for i := range all {
		b := &all[i]
		if b.Kind != KindBest {
			continue
		}
		for _, e := range all {
			if e.Kind == KindPeriod && e.Best && e.Target == b.Target && e.Build == b.Build && e.Event == b.Event && e.Owner == b.Owner {
				b.From, b.To = e.From, e.To
			}
		}
	}
}

// mergedParts returns the files that count for nothing: another one has what they have.
func (r *Reader) mergedParts() []string {
	plan, err := readMerging(r.disk)
	if err != nil || !exists(r.disk, plan.Path) {
		return nil
	}
	return plan.Parts
}

func (r *Reader) entry(f *found, x *index) Entry {
	e := Entry{
		Kind: KindPeriod, Target: f.target, Build: f.build, Event: f.event, Unit: ccmap.NewUnit(f.event, ""), Owner: f.owner,
		From: f.from, To: f.to, Path: filepath.Join(r.dir, f.path), Size: f.info.Size(), Level: f.level, Name: f.path,
	}
	if f.event == Event(ccmap.CPUTime) {
		e.Unit = ccmap.CPUTime
	}
	if f.best {
		switch e.Kind, e.Phase = KindBest, f.phase; {
		case f.fleet:
			e.Kind = KindFleet
		case f.phase > 0:
			e.Kind = KindPhase
		}
		e.From, e.To = f.info.ModTime().UTC(), f.info.ModTime().UTC()
	}
	if known, ok := x.find(f.path, f.info); ok {
		e.Quality, e.Unit = &known.quality, ccmap.NewUnit(f.event, known.unitBase)
		e.Interval, e.Commit = time.Duration(known.interval), fromUnix(known.commit)
		if f.best && !f.fleet && known.from != 0 {
			e.From, e.To = time.Unix(0, known.from).UTC(), time.Unix(0, known.to).UTC()
		}
	}
	return e
}

func compareEntries(a, b Entry) int {
	return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Event, b.Event), cmp.Compare(a.Build, b.Build),
		a.From.Compare(b.From), a.To.Compare(b.To), cmp.Compare(a.Kind, b.Kind), a.Owner.Compare(b.Owner))
}

// logged returns the ledger of the log, and says what is damaged.
func (r *Reader) logged() (l *ledger, damage string) {
	if r.writer != nil {
		return r.writer.ledgerNow()
	}
	l = newLedger()
	log, err := deltalog.Open(r.disk, logDir)
	if err != nil {
		return l, err.Error()
	}
	d := log.Scan(l.read)
	return l, describeDamage(d, l.unread)
}

// running adds the entries of the log, and says what is damaged.
func (r *Reader) running(f *Filter, to *[]Entry) (damage string) {
	l, damage := r.logged()
	for name, marks := range l.filings {
		if exists(r.disk, name) {
			l.file(marks)
		}
	}
	l.settle()
	for k, streams := range l.byKey() {
		e := Entry{
			Kind: KindRunning, Target: k.Target, Build: k.Build, Event: Event(k.Unit), Unit: k.Unit, Owner: k.Owner,
			Commit: commitOf(streams), log: &stored{k, streams},
		}
		for _, t := range streams {
			e.addStream(t)
		}
		if f.takes(&e) {
			*to = append(*to, e)
		}
	}
	return damage
}

// addStream adds the times and sizes of a stream.
func (e *Entry) addStream(t stream) {
	for _, f := range t.frames {
		if e.From.IsZero() || f.from.Before(e.From) {
			e.From = f.from
		}
		if f.to.After(e.To) {
			e.To = f.to
		}
		e.Size += f.at.Size()
	}
}

// Read returns the profile of an entry.
func (r *Reader) Read(e Entry) (*ccmap.Map, error) { return r.read(e, newLoad(r.within)) }

// read reads an entry, within a load.
func (r *Reader) read(e Entry, l *load) (*ccmap.Map, error) {
	if e.log == nil {
		m, err := readMap(r.disk, e.Name, l.next())
		if err != nil {
			return nil, fmt.Errorf("read stored profile: %w", err)
		}
		return m, nil
	}
	log, err := deltalog.Open(r.disk, logDir)
	if err != nil {
		return nil, fmt.Errorf("read stored profile: %w", err)
	}
	defer log.Close()
	all, err := merge(e.log.key, e.log.streams, log.Read, l.beside())
	if err != nil {
		return nil, fmt.Errorf("read stored profile: %w", err)
	}
	if all.Lost > 0 {
		return nil, advice.Add(fmt.Errorf("read the log of the store: %d frames are gone", all.Lost),
			"They were filed meanwhile: try again.")
	}
	return all.Map, nil
}

// Sum returns the sum of entries, which [Reader.Resolve] gives. With moments among them, it is the profile of these.
func (r *Reader) Sum(entries []Entry) (*ccmap.Map, error) {
	l := newLoad(r.within)
	files, moments := splitMoments(entries)
	sum, err := r.sum(files, l)
	if err == nil && len(moments) > 0 {
		sum, err = r.span(sum.Snapshot(), moments, l)
	}
	if err == nil && len(entries) > 0 && entries[0].Why != "" {
		sum.Meta().Comments = append(sum.Meta().Comments, ccmap.CommentWarning+entries[0].Why)
	}
	return sum, err
}

// sum adds entries up, within a load.
func (r *Reader) sum(entries []Entry, l *load) (*ccmap.Map, error) {
	sum := ccmap.New(ccmap.Options{})
	for _, e := range entries {
		m, err := r.read(e, l)
		switch {
		case err == nil && len(entries) == 1 && m.Meta().Window == 0: // as in a sum
			sum = m
		case err == nil:
			err = sum.Merge(m.Snapshot())
		}
		if err == nil {
			err = l.hold(sum)
		}
		if err != nil {
			return nil, err
		}
	}
	BoundMeta(sum.Meta())
	return sum, nil
}

// Delete removes the file of an entry. A reader that has it open goes on reading. The best file of a build is another
// name: it must be deleted, too.
func (r *Reader) Delete(e Entry) error {
	if e.Name == "" {
		return errors.New("delete stored profile: a running period ends with its daemon, and is no file")
	}
	if err := r.disk.Remove(e.Name); err != nil {
		return fmt.Errorf("delete stored profile: %w", err)
	}
	return nil
}

// Checked is the result of Check.
type Checked struct {
	Files     int   // that are whole
	Bytes     int64 // of them
	Damaged   []Damaged
	Skipped   int    // names that are no files of a store
	First     error  // why the first of them was skipped
	LogDamage string // empty: the log is whole
	Running   int    // profiles in the log
}

// Damaged is a file that cannot be read.
type Damaged struct {
	Name string
	Err  error
}

// Whole reports whether all that is there can be read.
func (c *Checked) Whole() bool { return len(c.Damaged) == 0 && c.LogDamage == "" }

// Check reads all that there is. It calls progress, unless that is nil, after each file.
func (r *Reader) Check(ctx context.Context, progress func(done, of int)) (Checked, error) {
	l := r.List(Filter{Running: true})
	c := Checked{Skipped: l.Skipped, First: l.First, LogDamage: l.Damage}
	for i, e := range l.Entries {
		if err := ctx.Err(); err != nil {
			return c, fmt.Errorf("check store: %w", context.Cause(ctx))
		}
		_, err := r.Read(e)
		switch {
		case err != nil && e.Name != "":
			c.Damaged = append(c.Damaged, Damaged{e.Name, err})
		case err != nil:
			c.LogDamage = cmp.Or(c.LogDamage, err.Error())
		case e.Name == "":
			c.Running++
		default:
			c.Files++
			c.Bytes += e.Size
		}
		if progress != nil {
			progress(i+1, len(l.Entries))
		}
	}
	return c, nil
}
