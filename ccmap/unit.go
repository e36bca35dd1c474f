package ccmap

import (
	"errors"
	"fmt"
)

// ErrUnlike is the error of merging or comparing profiles whose weights have
// different units. The error that wraps it names both.
var ErrUnlike = errors.New("profiles measure different things")

// Unit says what the weight of samples, [Counters].Time, measures. It is what
// pprof calls a sample type: a kind and a base unit. The zero Unit is CPU time in
// nanoseconds. Units are equal if and only if == says so.
type Unit struct{ kind, base string }

// Units that profiles of ccmapd have. Those of other tools have others too.
var (
	CPUTime      = Unit{}
	Instructions = Unit{"instructions", "count"}
	SampleCount  = Unit{"samples", "count"}
)

// cpuTime is how formats write the zero Unit.
var cpuTime = Unit{"cpu", Nanoseconds}

// Nanoseconds is the base of all units of time: readers convert the others.
const Nanoseconds = "nanoseconds"

// NewUnit returns the unit of a kind, for example "alloc_space", that is counted in
// a base, for example "bytes". Without either it is CPU time.
func NewUnit(kind, base string) Unit {
	u := Unit{kind, base}
	if u == cpuTime {
		return CPUTime
	}
	return u
}

// Kind returns what is measured, for example "cpu", "alloc_space", "delay".
func (u Unit) Kind() string { return u.written().kind }

// Base returns what it is counted in, for example "nanoseconds", "bytes", "count".
func (u Unit) Base() string { return u.written().base }

// String returns kind and base, for example "cpu/nanoseconds".
func (u Unit) String() string { return u.Kind() + "/" + u.Base() }

// Equal is u == o, for packages that compare by a method.
func (u Unit) Equal(o Unit) bool { return u == o }

func (u Unit) written() Unit {
	if u == CPUTime {
		return cpuTime
	}
	return u
}

// CheckLike returns an error that wraps [ErrUnlike] if the units differ.
func CheckLike(a, b Unit) error {
	if a == b {
		return nil
	}
	return fmt.Errorf("%w: %q and %q", ErrUnlike, a, b)
}

// SetUnit says what the map's weights measure. A map that has weights of another
// unit already stays as it is: the error wraps [ErrUnlike].
func (m *Map) SetUnit(u Unit) error {
	if !m.isEmpty() {
		return CheckLike(m.meta.Unit, u)
	}
	m.meta.Unit = u
	return nil
}
