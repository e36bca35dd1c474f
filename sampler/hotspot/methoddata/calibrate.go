package methoddata

import "fmt"

// leastRecords are enough records to learn from.
const leastRecords = 20

// calibrate finds out how many cells are between the count and the rows of a record of
// types: one in a JVM that was built for JVMCI until JDK 17, none later. With the right
// number all records of all methods make sense: their bytecodes ascend, they end where the
// profile ends, and their types are classes. With a wrong one, half of the methods have
// none of this.
func (r *Reader) calibrate() error {
	best, errs, records := -1, 0, 0
	for extra := range 2 {
		l := r.l
		l.extra = extra
		bad, n := r.errors(&l)
		if best < 0 || bad < errs {
			best, errs, records = extra, bad, n
		}
	}
	r.l.extra = best
	switch {
	case records < leastRecords:
		return fmt.Errorf("%w: %d records", ErrFew, records)
	case errs > len(r.profiles)/100: // a few classes come and go meanwhile
		return fmt.Errorf("%w: %d of %d methods", ErrLayout, errs, len(r.profiles))
	}
	profiles := r.profiles
	r.profiles, r.stats.Warm = make(map[uint64]*profile, len(profiles)), 0
	r.calibrated = true
	for _, p := range profiles {
		if !r.add(p) {
			r.stats.Dropped++
		}
	}
	return nil
}

// errors returns how many methods have records that make no sense with a layout, and the
// records of the others.
func (r *Reader) errors(l *layout) (bad, records int) {
	for _, p := range r.profiles {
		n := 0
		err := l.each(p.data, p.method.CodeSize, func(rec *record) error {
			for _, row := range l.rows(rec) {
				if _, err := r.table.Class(row.class); err != nil {
					return err
				}
			}
			n++
			return nil
		})
		if err != nil {
			bad++
			continue
		}
		records += n
	}
	return bad, records
}
