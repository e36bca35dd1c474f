package compilation

import (
	"cmp"
	"slices"
)

// MostWrong is how often a cached profile may be wrong: then it is out of use until a new best one is there. A few
// mismatches are no harm: classes were not loaded yet.
const MostWrong = 10

// Cache has the record of each method that counts. It belongs to one goroutine.
type Cache struct {
	kept map[name]*Record
}

// name is a method's name, whatever its code.
type name struct{ name, signature string }

// NewCache keeps of each method the last record of the highest level. Compiling a method again after its record was out
// of use begins anew, at whatever level.
func NewCache(records []Record) *Cache {
	c := &Cache{kept: make(map[name]*Record)}
	for _, r := range records {
		c.Add(r)
	}
	return c
}

// Add takes the next record.
func (c *Cache) Add(r Record) {
	at := name{r.Name, r.Signature}
	kept := c.kept[at]
	switch {
	case r.Level == 0:
		c.addWrong(at, r)
	case r.Level < LevelProfiled:
	case kept == nil || kept.IsOut() || !kept.fits(r.Method) || r.Level >= kept.Level:
		r.Wrong = 0
		c.kept[at] = &r
	}
}

// addWrong takes a record that says how often the one before it was wrong. Of a cached profile that has no record, the
// last one counts.
func (c *Cache) addWrong(at name, r Record) {
	switch kept := c.kept[at]; {
	case kept == nil || kept.Level == 0:
		if r.Wrong > 0 {
			c.kept[at] = &Record{Method: r.Method, Time: r.Time, OSR: NoOSR, Wrong: r.Wrong}
		}
	case kept.fits(r.Method):
		kept.Wrong = max(kept.Wrong, r.Wrong)
	}
}

// IsOut reports whether the record was wrong too often to be used.
func (r *Record) IsOut() bool { return r.Wrong >= MostWrong }

// Find returns the record of a method, also one that is out of use; false: there is none, or of other code.
func (c *Cache) Find(m Method) (Record, bool) {
	kept := c.kept[name{m.Name, m.Signature}]
	if kept == nil || !kept.fits(m) {
		return Record{}, false
	}
	return *kept, true
}

// Level returns the level of the record of a method; 0: it has none that may be used. It is the thesis's is_cached.
func (c *Cache) Level(m Method) int {
	if r, found := c.Find(m); found && !r.IsOut() {
		return r.Level
	}
	return 0
}

// Wrong notes that the record of a method was wrong once, and returns the record that says so, for the log. It reports
// whether the record is out of use with that; false, too, where there is no record in use.
func (c *Cache) Wrong(m Method, at int64) (r Record, out bool) {
	kept := c.kept[name{m.Name, m.Signature}]
	if kept == nil || kept.Level == 0 || kept.IsOut() || !kept.fits(m) {
		return Record{}, false
	}
	kept.Wrong++
	return Record{Method: kept.Method, Time: at, OSR: NoOSR, Wrong: kept.Wrong}, kept.IsOut()
}

// All returns the records, by name.
func (c *Cache) All() []Record {
	all := make([]Record, 0, len(c.kept))
	for _, r := range c.kept {
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Signature, b.Signature))
	})
	return all
}

// Compact appends the log that says the same as the cache.
func (c *Cache) Compact(b []byte) []byte {
	for _, r := range c.All() {
		wrong := Record{Method: r.Method, Time: r.Time, OSR: NoOSR, Wrong: r.Wrong}
		r.Wrong = 0
		if r.Level > 0 {
			b, _ = Append(b, r) // it was checked when it was read
		}
		if wrong.Wrong > 0 {
			b, _ = Append(b, wrong)
		}
	}
	return b
}
