package methoddata

import (
	"errors"
	"fmt"
)

// leastRecords are enough records to learn from.
const leastRecords = 20

// calibrate finds out how many cells are between the count and the rows of a record of
// types: one in a JVM that was built for JVMCI until JDK 17, none later. With the right
// number all records of all methods make sense: their bytecodes ascend, they end where the
// profile ends, and their types are classes. With a wrong one, half of the methods have
// none of this.
func (r *Reader) calibrate(taken []*profile) error {
	best, errs, records := -1, 0, 0
	for extra := range 2 {
		l := r.l
		l.extra = extra
		bad, n := r.errors(&l, taken)
		if best < 0 || bad < errs {
			best, errs, records = extra, bad, n
		}
	}
	switch {
	case records < leastRecords:
		return fmt.Errorf("%w: %d records", ErrFew, records)
	case errs > len(taken)/20: // a few classes come and go meanwhile
		return fmt.Errorf("%w: %d of %d methods", ErrLayout, errs, len(taken))
	}
	r.l.extra, r.calibrated = best, true
	return r.checkMeaning(taken)
}

// checkMeaning holds the invocations of methods against the counts of their first calls. A method
// whose first record is a call makes it each time that it is invoked, unless it makes it in a
// loop, or fails before. So most pairs agree, if both numbers are what they are taken for.
func (r *Reader) checkMeaning(taken []*profile) error {
	agree, pairs := r.firstCalls(taken)
	if pairs >= leastRecords && agree < pairs/2 {
		r.calibrated = false
		return fmt.Errorf("%w: the first call of %d methods of %d is as frequent as the method", ErrLayout, agree, pairs)
	}
	return nil
}

// firstCalls returns how many methods begin with a call, and how many of them make it as often
// as they are invoked.
func (r *Reader) firstCalls(taken []*profile) (agree, pairs int) {
	const (
		often  = 100 // invocations: few enough may differ by those that have begun
		within = 20  // one part of that
	)
	for _, p := range taken {
		if calls, ok := r.firstCall(p); ok && p.invocations >= often {
			pairs++
			if off := calls - p.invocations; max(off, -off) <= p.invocations/within {
				agree++
			}
		}
	}
	return agree, pairs
}

var errFirst = errors.New("the first record is enough")

// firstCall returns how often a method has made the call of its first record, if that is one.
func (r *Reader) firstCall(p *profile) (calls int64, ok bool) {
	r.l.each(p.data, p.method.CodeSize, func(rec *record) error {
		switch rec.tag {
		case tagCounter, tagCall, tagVirtual, tagVirtualCall:
			calls, ok = max(rec.count(0), 0), true
			for _, row := range r.l.rows(rec) {
				calls += row.count
			}
		}
		return errFirst
	})
	return calls, ok
}

// errors returns how many methods have records that make no sense with a layout, and the
// records of the others. A type that the walk has not met makes no sense.
func (r *Reader) errors(l *layout, taken []*profile) (bad, records int) {
	for _, p := range taken {
		n := 0
		err := l.each(p.data, p.method.CodeSize, func(rec *record) error {
			for _, row := range l.rows(rec) {
				if r.table.Known(row.class) == nil {
					return errType
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
