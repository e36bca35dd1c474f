package vmstructs

import (
	"encoding/binary"
	"fmt"
)

// flag is a flag of the command line, such as UseCompressedClassPointers.
type flag struct {
	addr uint64
	typ  int // JVMFlag's enumeration
}

// The types of flags (enum of jvmFlag.hpp, JDK 17 to 25). Those between flagUint and
// flagDouble have 8 bytes.
const (
	flagBool   = 0
	flagInt    = 1
	flagUint   = 2
	flagDouble = 7
)

// maxFlags bounds the flags; JDK 25 has 1,200.
const maxFlags = 1 << 13

// readFlags reads the table of flags, not their values.
func (l *load) readFlags(v *VM) error {
	q := v.Query()
	table, count := q.Static("JVMFlag.flags"), q.Static("JVMFlag.numFlags")
	stride := q.Size("JVMFlag")
	columns := []uint64{q.Offset("JVMFlag._name"), q.Offset("JVMFlag._addr"), q.Offset("JVMFlag._type")}
	if err := q.Err(); err != nil {
		return err
	}
	at, err := l.word(table)
	if err != nil {
		return err
	}
	n, err := l.word(count)
	if err != nil {
		return err
	}
	if n > maxFlags || stride < 8 || stride > maxStride {
		return fmt.Errorf("%d flags of %d bytes: %w", n, stride, errCorrupt)
	}
	for _, c := range columns {
		if c > stride-4 {
			return fmt.Errorf("a column at %d in flags of %d bytes: %w", c, stride, errCorrupt)
		}
	}
	raw, err := l.bytesAt(at, int(n*stride))
	if err != nil {
		return err
	}
	return l.addFlags(v, raw, int(stride), columns)
}

func (l *load) addFlags(v *VM, raw []byte, stride int, columns []uint64) error {
	var rows []row
	var names []uint64
	for ; len(raw) >= stride; raw = raw[stride:] {
		if r := cut(raw[:stride], columns); r[0] != 0 { // the last one has no name
			rows, names = append(rows, r), append(names, r[0])
		}
	}
	if err := l.fetch(names); err != nil {
		return err
	}
	v.flags = make(map[string]flag, len(rows))
	for _, r := range rows {
		name, err := l.text(r[0])
		if err != nil {
			return err
		}
		v.flags[name] = flag{r[1], int(int32(r[2]))}
	}
	return nil
}

// Flag reads the value of a flag now: 0 or 1 of a bool, a sign-extended int, any other
// number as it is. A flag with a text or a fraction has none.
func (v *VM) Flag(name string) (uint64, bool) {
	f, ok := v.flags[name]
	if !ok || f.typ < flagBool || f.typ >= flagDouble {
		return 0, false
	}
	var b [8]byte
	size := 8
	switch f.typ {
	case flagBool:
		size = 1
	case flagInt, flagUint:
		size = 4
	}
	if v.Memory.Read(f.addr, b[:size]) != nil {
		return 0, false
	}
	word := binary.LittleEndian.Uint64(b[:])
	if f.typ == flagInt {
		word = uint64(int64(int32(word)))
	}
	return word, true
}
