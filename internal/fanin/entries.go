package fanin

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/ccmapd/ccmapd/internal/cursor"
	"github.com/ccmapd/ccmapd/internal/figure"
)

// List is entries in order, each key once.
type List []Entry

// Read reads all entries of a file.
func Read(b []byte) (List, error) { return ofCommand.Read(b) }

// Read reads all entries of a file, within limits.
func (l Limits) Read(b []byte) (List, error) {
	f, err := l.Open(b)
	if err != nil {
		return nil, err
	}
	return f.Entries()
}

// Entries returns all entries of a file. It checks what a look-up of one method need not.
func (f *File) Entries() (List, error) {
	all := make(List, 0, min(f.methods, 1<<16)) // the number is not to be believed
	var numbers []uint64                        // of callers, one after the other
	err := f.all(func(n uint64, k Key, rest cursor.Cursor) error {
		e, err := readFanIn(n, rest)
		all, numbers = append(all, Entry{k, e.FanIn}), append(numbers, e.numbers...)
		if len(numbers) > f.limits.Callers {
			return fmt.Errorf("%w: more than %d callers", ErrTooLarge, f.limits.Callers)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		for i := range e.Listed {
			n := numbers[i]
			if n >= uint64(len(all)) {
				return nil, fmt.Errorf("%w: caller %d", ErrDamaged, n)
			}
			e.Listed[i].Key = all[n].Key
		}
		numbers = numbers[len(e.Listed):]
	}
	return all, nil
}

// all calls visit with each method of a file, in order: its number, its key, and bytes that begin with its fan-in.
func (f *File) all(visit func(n uint64, k Key, rest cursor.Cursor) error) error {
	var last Key
	seen, size := uint64(0), 0
	for at, b := range f.blocks {
		var wrong error
		n, err := f.each(at, func(n uint64, raw rawKey, rest cursor.Cursor) bool {
			k := raw.key()
			if n%blockSize == 0 && k != b.first || seen > 0 && last.compare(k) >= 0 {
				wrong = fmt.Errorf("%w: block %d is not in order", ErrDamaged, at)
				return false
			}
			last, seen = k, seen+1
			wrong = visit(n, k, rest)
			return wrong == nil
		})
		size += n
		switch {
		case err != nil || wrong != nil:
			return cmp.Or(err, wrong)
		case size > f.limits.Plain:
			return fmt.Errorf("%w: more than %d MiB", ErrTooLarge, f.limits.Plain>>20)
		case seen != min(f.methods, uint64(at+1)*blockSize):
			return fmt.Errorf("%w: block %d lacks methods", ErrDamaged, at)
		}
	}
	return nil
}

// Check returns an error if entries that others have sent are not a list, or the numbers of one cannot be.
func (l List) Check() error {
	for i, e := range l {
		sum := e.Other
		for _, c := range e.Listed {
			sum += c.Samples
		}
		switch {
		case i > 0 && l[i-1].Key.compare(e.Key) >= 0:
			return fmt.Errorf("%w: the entries are not in order", ErrDamaged)
		case sum != e.Samples, len(e.Listed) > MostCallers, e.Callers > MostCallers+1, int(e.Callers) < len(e.Listed):
			return fmt.Errorf("%w: the callers of %.200q are not all", ErrDamaged, e.Name)
		}
	}
	return nil
}

// Find returns the entry of a method. If the code of one of the two is not known, it is the only entry of the name and
// signature.
func (l List) Find(k Key) (Entry, bool) {
	alike := l.alike(k)
	for _, e := range alike {
		if e.Body == k.Body {
			return e, true
		}
	}
	if len(alike) == 1 && (k.Body == 0 || alike[0].Body == 0) {
		return alike[0], true
	}
	return Entry{}, false
}

// alike returns the entries of the name and signature of a method.
func (l List) alike(k Key) List {
	begin := sort.Search(len(l), func(i int) bool { return l[i].Key.compare(Key{k.Name, k.Signature, 0}) >= 0 })
	end := begin
	for end < len(l) && l[end].Name == k.Name && l[end].Signature == k.Signature {
		end++
	}
	return l[begin:end]
}

// same returns the entry of the method that another list has under a key. Without the code of both, each list has one
// entry of the name and signature.
func (l List) same(k Key, other List) (Entry, bool) {
	e, found := l.Find(k)
	if found && e.Key != k && len(other.alike(k)) > 1 {
		return Entry{}, false
	}
	return e, found
}

// Choice is the fan-in of a method from the better of two sources.
type Choice struct {
	Entry
	Shared bool // it is the shared one's

	OwnSamples, SharedSamples *uint64 // of each source; nil: it does not know the method
}

// Choose looks a method up in one's own source and in the shared one, and takes the [Better]. If neither knows the
// method, there is none.
func Choose(k Key, own, shared List) (c Choice, known bool) {
	mine, isOwn := own.Find(k)
	theirs, isShared := shared.Find(k)
	switch { // which one knows the code of k, or may
	case isOwn && (mine.Key == k || !isShared || theirs.Key != k):
		theirs, isShared = shared.same(mine.Key, own)
	case isShared:
		mine, isOwn = own.same(theirs.Key, shared)
	}
	if isOwn {
		c.Entry, c.OwnSamples = mine, &mine.Samples
	}
	if isShared {
		c.SharedSamples = &theirs.Samples
		c.Shared = !isOwn || Better(mine.FanIn, theirs.FanIn) > 0
	}
	if c.Shared {
		c.Entry = theirs
	}
	return c, isOwn || isShared
}

// Methods returns the key of each method that one of two sources knows, in order.
func Methods(own, shared List) []Key {
	all := make([]Key, 0, len(own))
	for _, e := range own {
		all = append(all, e.Key)
	}
	for _, e := range shared {
		if _, known := own.same(e.Key, shared); !known {
			all = append(all, e.Key)
		}
	}
	slices.SortFunc(all, Key.compare)
	return all
}

// Called says from how many places a method is called, where a shared source knows it better than one's own.
type Called struct {
	Method    string `json:"method"`
	Signature string `json:"signature,omitempty"`
	Places    uint32 `json:"places"`      // that call it; 21: more than 20
	Samples   uint64 `json:"samples"`     // of its calls, in the shared source
	Own       uint64 `json:"own_samples"` // in the profile
	Source    string `json:"source"`      // the shared one
}

// OfFleet is the name of a source that has what a whole fleet knows.
const OfFleet = "the whole fleet"

// String says it as an end of a sentence.
func (c Called) String() string {
	where := c.Source
	if strings.HasPrefix(where, "@hub/") {
		where = OfFleet
	}
	return "called from " + PlacesText(c.Places) + " in " + where
}

// PlacesText prints how many places call a method.
func PlacesText(n uint32) string {
	if n > MostCallers {
		return fmt.Sprintf("more than %d places", MostCallers)
	}
	return figure.Plural(int64(n), "place")
}

// CalledIn returns what a shared source knows better of some methods.
func CalledIn(source string, own, shared List, methods []Key) []Called {
	var all []Called
	for _, k := range methods {
		c, known := Choose(k, own, shared)
		if !known || !c.Shared || c.Callers == 0 {
			continue
		}
		is := Called{Method: k.Name, Signature: k.Signature, Places: c.Callers, Samples: c.Samples, Source: source}
		if c.OwnSamples != nil {
			is.Own = *c.OwnSamples
		}
		all = append(all, is)
	}
	return all
}
