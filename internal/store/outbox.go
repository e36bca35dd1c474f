package store

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/contribution"
)

// Names of the outbox.
const (
	outboxDir    = "hub"
	identityName = outboxDir + "/identity"
	dueType      = ".due"    // a file that is to be sent, or was to be: JSON of a due
	sealedType   = ".sealed" // a contribution: a line with the JSON of a seal, and a frame
)

// Bounds of the outbox.
const (
	sealParts  = 64 // files of one contribution
	mostSealed = 64 // contributions that wait
	mostDue    = 64 << 10
	mostHead   = 64 << 10 // bytes of a due file, and of the line of a sealed one
	mostPlain  = 48 << 20 // bytes of a contribution before compression; the hub reads 64 MiB
	partMemory = 128 << 20
)

// Outbox has what a hub is to get of the files of a store. Each file counts once there:
//
//  1. Before a file of a key that is taken is written, a .due file says so. It counts as soon as the file exists.
//  2. [Outbox.Seal] puts the due files of a build into one contribution, which never changes: its .sealed file names
//     the .due files that it stands for. It has a number that no other one has, in the epoch of this process.
//  3. It is sent until it is acknowledged, also by later processes. Then its .due files go, and after them itself.
//
// So a kill at any moment leaves a file due, or in one contribution. Of a build one contribution waits, and the files
// after it are in the next: while the hub is away the store holds what waits, and nothing is held twice.
//
// Any goroutine may call the methods. All fields but the first are under mu.
type Outbox struct {
	store *Store

	mu     sync.Mutex
	takes  func(Key) bool
	is     identity
	seqs   map[build]uint64 // the last number, of this epoch
	due    map[string]due   // by the name of its file
	sealed map[string]Sealed
	lost   uint64 // files that were due, and are gone or cannot be read
	broken error  // nobody knows what the disk has: nothing is sealed before the next start
}

// identity is what the hub knows a store by.
type identity struct {
	Instance string `json:"instance"`
	Machine  string `json:"machine"` // of which it is: a copy of the store on another machine is another instance
	Epoch    uint64 `json:"epoch"`   // of this process
}

// build is what the hub adds up.
type build struct{ Target, Build, Kind, Base string }

// due is a file of the store that is to be sent.
type due struct {
	build
	Path     string
	From, To time.Time
}

// seal is the head of a .sealed file.
type seal struct {
	Due []string // names
}

// Sealed is a contribution that waits for its acknowledgement.
type Sealed struct {
	Name string // of the file
	Key  contribution.Key
	due  []string
}

// Files returns how many files the contribution has.
func (s Sealed) Files() int { return len(s.due) }

// OpenOutbox makes the store note the files that are to be sent from now on: those of keys that are taken. It begins an
// epoch. Machine names the machine. Call it once.
func (s *Store) OpenOutbox(machine string, takes func(Key) bool) (*Outbox, error) {
	o := &Outbox{store: s, takes: takes, seqs: make(map[build]uint64), due: make(map[string]due), sealed: make(map[string]Sealed)}
	s.filing.Lock()
	defer s.filing.Unlock()
	if err := errors.Join(o.identify(machine), o.load()); err != nil {
		return nil, fmt.Errorf("open outbox of store %s: %w", s.Dir, err)
	}
	s.outbox = o
	return o, nil
}

// identify reads the identity, or makes a new one, and begins an epoch.
func (o *Outbox) identify(machine string) error {
	text, err := o.read(identityName, mostHead)
	if err == nil {
		err = json.Unmarshal(text, &o.is)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.store.log.Warn("the hub will know this store by another name", "error", err)
	}
	if id, bad := hex.DecodeString(o.is.Instance); err != nil || bad != nil || len(id) != 16 || o.is.Machine != machine {
		o.is = newIdentity(machine)
	}
	o.is.Epoch++
	return o.writeIdentity()
}

func newIdentity(machine string) identity {
	var id [16]byte
	rand.Read(id[:])
	return identity{Instance: hex.EncodeToString(id[:]), Machine: machine}
}

func (o *Outbox) writeIdentity() error {
	return o.replaceJSON(identityName, o.is)
}

func (o *Outbox) replaceJSON(name string, value any) error {
	return o.store.replace(name, func(w io.Writer) error { return json.NewEncoder(w).Encode(value) })
}

// load reads what waits. What cannot be read is logged and stays: it may be of a later version.
func (o *Outbox) load() error {
	infos, err := o.store.disk.List(outboxDir)
	if err != nil {
		return err
	}
	gone := make(map[string]bool)
	for _, info := range infos {
		name := path.Join(outboxDir, info.Name())
		switch {
		case strings.HasSuffix(name, sealedType):
			s, _, err := o.readSealed(name)
			if err != nil {
				o.store.log.Error("cannot read what waits for the hub", "path", name, "error", err)
				continue
			}
			o.sealed[name] = s
			for _, part := range s.due {
				gone[part] = true
			}
		case strings.HasSuffix(name, dueType):
			o.loadDue(name)
		}
	}
	for name := range gone {
		delete(o.due, name)
	}
	return nil
}

// loadDue reads a .due file. Without its file it says nothing: that was not written, or was removed.
func (o *Outbox) loadDue(name string) {
	var d due
	text, err := o.read(name, mostHead)
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil || !isFile(d.Path) {
		o.store.log.Error("cannot read what waits for the hub", "path", name, "error", err)
		return
	}
	if !exists(o.store.disk, d.Path) {
		if o.store.isGone(d.Path) {
			o.store.disk.Remove(name)
		}
		return
	}
	o.due[name] = d
}

func (o *Outbox) read(name string, most int64) ([]byte, error) {
	f, err := o.store.disk.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return text, err
}

// announce notes that a file is to be sent, if it is. The caller writes it, and tells by done whether it is there, or
// surely is not. It holds the store's filing.
func (o *Outbox) announce(k Key, n fileName, name string) (done func(written, gone bool), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.takes(k) {
		return func(bool, bool) {}, nil
	}
	if len(o.due) >= mostDue {
		o.lost++
		return func(bool, bool) {}, nil
	}
	d := due{build{k.Target, k.Build, k.Unit.Kind(), k.Unit.Base()}, name, n.from.UTC(), n.to.UTC()}
	marker := o.newName(dueType)
	if err := o.replaceJSON(marker, d); err != nil {
		return nil, fmt.Errorf("note for the hub: %w", err)
	}
	return func(written, gone bool) {
		o.mu.Lock()
		defer o.mu.Unlock()
		switch {
		case written:
			o.due[marker] = d
		case gone:
			o.store.disk.Remove(marker) // the next process does so else
		}
	}, nil
}

func (o *Outbox) newName(ending string) string {
	return path.Join(outboxDir, strconv.FormatUint(newID(), 36)+ending)
}

// Waiting returns the contributions that wait, by name, and how many files are due beside them.
func (o *Outbox) Waiting() (sealed []Sealed, files int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(o.sealed)) {
		sealed = append(sealed, o.sealed[name])
	}
	return sealed, len(o.due)
}

// Lost returns how many files were due and did not get into a contribution: they were removed, or cannot be read.
func (o *Outbox) Lost() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost
}

// Instance returns the name that the hub knows the store by.
func (o *Outbox) Instance() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.is.Instance
}

// batch is files of a build that become one contribution.
type batch struct {
	of    build
	names []string
	files []due
}

// Seal makes a contribution of the due files of each build that has none waiting. CPUs is how many a target may use.
// One goroutine at a time calls it.
func (o *Outbox) Seal(cpus int) error {
	batches, err := o.batches()
	for _, b := range batches {
		err = errors.Join(err, o.sealBatch(b, cpus))
	}
	return err
}

// batches returns what is to be sealed, the oldest files of a build first.
func (o *Outbox) batches() (all []batch, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken != nil {
		return nil, o.broken
	}
	waiting := make(map[build]bool)
	for _, s := range o.sealed {
		waiting[buildOf(s.Key)] = true
	}
	builds := make(map[build][]string)
	for name, d := range o.due {
		if !waiting[d.build] {
			builds[d.build] = append(builds[d.build], name)
		}
	}
	for of, names := range builds {
		if len(o.sealed)+len(all) >= mostSealed {
			break
		}
		slices.SortFunc(names, func(a, b string) int { return o.due[a].From.Compare(o.due[b].From) })
		b := batch{of: of, names: names[:min(len(names), sealParts)]}
		for _, name := range b.names {
			b.files = append(b.files, o.due[name])
		}
		all = append(all, b)
	}
	return all, nil
}

func buildOf(k contribution.Key) build { return build{k.Target, k.Build, k.Kind, k.Base} }

// sealBatch makes a contribution of files. What cannot be read is left out, and is due no more. The map is made without
// the lock: who files must not wait for it.
func (o *Outbox) sealBatch(b batch, cpus int) error {
	sum := ccmap.New(ccmap.Options{})
	k := contribution.Key{Target: b.of.Target, Build: b.of.Build, Kind: b.of.Kind, Base: b.of.Base, CPUs: cpus}
	var parts, bad []string
	for i, d := range b.files {
		if err := o.addFile(sum, d); err != nil {
			o.store.log.Error("a file is not sent to the hub", "path", d.Path, "error", err)
			bad = append(bad, b.names[i])
			continue
		}
		parts = append(parts, b.names[i])
		if k.From.IsZero() || d.From.Before(k.From) {
			k.From = d.From
		}
		if d.To.After(k.To) {
			k.To = d.To
		}
	}
	if !k.From.Before(k.To) {
		k.To = k.From.Add(time.Millisecond)
	}
	StripMeta(sum.Meta())
	body, err := encodeForHub(sum)
	if err != nil {
		bad, parts = append(bad, parts...), nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(bad) > 0 {
		o.lost += uint64(len(bad))
		err = errors.Join(err, o.forget(bad))
	}
	if err == nil && len(parts) > 0 {
		err = o.write(Sealed{Name: o.newName(sealedType), Key: k, due: parts}, body)
	}
	if err != nil {
		return fmt.Errorf("seal for the hub: %w", err)
	}
	return nil
}

func (o *Outbox) addFile(sum *ccmap.Map, d due) error {
	m, err := readMap(o.store.disk, d.Path, export.ReadOptions{MaxMemory: partMemory})
	if err != nil {
		return err
	}
	return AddForHub(sum, m.Snapshot())
}

// AddForHub adds to a map what a hub may know of a profile: no labels, and no paths of executables.
func AddForHub(sum *ccmap.Map, s *ccmap.Snapshot) error {
	from := s.Names()
	hidePath(sum.Names(), from, s.Meta().Target.BuildID)
	for id := range from.Len() {
		hidePath(sum.Names(), from, from.At(ccmap.MethodID(id)).Module)
	}
	return sum.Merge(s.WithoutLabels())
}

// hidePath says in names where a module of other names stands, but not in which file: that is kept before others.
func hidePath(names, of *ccmap.Names, module string) {
	at := of.Mapping(module)
	at.File = ""
	names.SetMapping(module, at)
}

// encodeForHub returns a profile as the hub takes it. One that is too large is pruned, which keeps its sums.
func encodeForHub(sum *ccmap.Map) ([]byte, error) {
	for bound := sum.Bytes(); ; bound /= 2 {
		var body bytes.Buffer
		z, err := zstd.NewWriter(&body, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(bodyWindow), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return nil, err
		}
		plain := &counted{w: z}
		if err := errors.Join(export.Write(plain, export.JSON, sum.Snapshot()), z.Close()); err != nil {
			return nil, err
		}
		if plain.n <= mostPlain && body.Len() <= contribution.MostBody {
			return body.Bytes(), nil
		}
		if bound < 1<<10 {
			return nil, export.ErrTooLarge
		}
		sum.SetMaxBytes(bound / 2)
	}
}

// counted counts the bytes that are written.
type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// write gives a contribution the next number, and writes its file. After an error the file is not there and its files
// are due, or the outbox is broken.
func (o *Outbox) write(s Sealed, body []byte) error {
	of := buildOf(s.Key)
	o.seqs[of]++
	s.Key.Instance, s.Key.Epoch, s.Key.Seq = o.is.Instance, o.is.Epoch, o.seqs[of]
	frame, err := contribution.Append(nil, s.Key, body)
	if err = cmp.Or(err, s.Key.Check()); err != nil {
		o.lost += uint64(len(s.due))
		return errors.Join(err, o.forget(s.due))
	}
	err = o.store.replace(s.Name, func(w io.Writer) error {
		if err := json.NewEncoder(w).Encode(seal{s.due}); err != nil {
			return err
		}
		_, err := w.Write(frame)
		return err
	})
	if err != nil {
		o.broken = o.remove(s.Name)
		delete(o.sealed, s.Name)
		for _, name := range s.due {
			o.loadDue(name)
		}
		return err
	}
	o.sealed[s.Name] = s
	for _, name := range s.due {
		delete(o.due, name)
	}
	return nil
}

// readSealed reads a .sealed file, and the frame in it.
func (o *Outbox) readSealed(name string) (Sealed, contribution.Frame, error) {
	text, err := o.read(name, mostHead+contribution.MostKey+contribution.MostBody+64)
	if err != nil {
		return Sealed{}, contribution.Frame{}, err
	}
	line, rest, _ := bytes.Cut(text, []byte("\n"))
	var head seal
	if err := json.Unmarshal(line, &head); err != nil {
		return Sealed{}, contribution.Frame{}, err
	}
	for _, d := range head.Due {
		if path.Dir(d) != outboxDir || !strings.HasSuffix(d, dueType) {
			return Sealed{}, contribution.Frame{}, fmt.Errorf("%q is no name of the outbox", d)
		}
	}
	f, err := contribution.One(rest)
	return Sealed{name, f.Key, head.Due}, f, err
}

// Frame returns the bytes of a contribution.
func (o *Outbox) Frame(s Sealed) ([]byte, error) {
	_, f, err := o.readSealed(s.Name)
	if err != nil {
		return nil, fmt.Errorf("read what waits for the hub: %w", err)
	}
	return f.Bytes, nil
}

// Done ends a contribution: the hub has it, or will never take it. After an error it is to be sent again.
func (o *Outbox) Done(s Sealed) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.forget(s.due); err != nil {
		return fmt.Errorf("note what the hub has: %w", err)
	}
	if err := o.remove(s.Name); err != nil {
		return fmt.Errorf("note what the hub has: %w", err)
	}
	delete(o.sealed, s.Name)
	return nil
}

// Renew gives a contribution that the hub does not have another number: of a new epoch, or of a new instance, where
// another machine has its own. The caller knows that no send of it can have arrived.
func (o *Outbox) Renew(s Sealed, cloned bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken != nil {
		return o.broken
	}
	_, f, err := o.readSealed(s.Name)
	if err != nil {
		return fmt.Errorf("read what waits for the hub: %w", err)
	}
	if s.Key.Instance == o.is.Instance && s.Key.Epoch == o.is.Epoch {
		next := o.is
		if cloned {
			next = newIdentity(o.is.Machine)
		}
		next.Epoch++
		before := o.is
		o.is = next
		if err := o.writeIdentity(); err != nil {
			o.is = before
			return fmt.Errorf("begin an epoch of the hub: %w", err)
		}
		clear(o.seqs)
	}
	return o.write(s, f.Body)
}

// forget removes .due files for good.
func (o *Outbox) forget(names []string) error {
	for _, name := range names {
		if err := o.store.disk.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		delete(o.due, name)
	}
	return o.store.disk.SyncDir(outboxDir)
}

func (o *Outbox) remove(name string) error {
	if err := o.store.disk.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return o.store.disk.SyncDir(outboxDir)
}
