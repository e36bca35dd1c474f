package symbols

import (
	"encoding/binary"
	"errors"
)

var errCut = errors.New("it ends too early")

// decoder reads numbers from bytes. After the first error all are 0, and it is
// empty, so that every loop over what is left ends.
type decoder struct {
	data []byte
	err  error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.data = nil
}

func (d *decoder) empty() bool { return len(d.data) == 0 }

// bytes returns the next n, which stay part of the module.
func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.data)) {
		d.fail(errCut)
		return nil
	}
	b := d.data[:n:n]
	d.data = d.data[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) u16() uint16 {
	if b := d.bytes(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if b := d.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if b := d.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// uleb returns the next LEB128 number.
func (d *decoder) uleb() uint64 {
	v, n := binary.Uvarint(d.data) // the same encoding
	if n <= 0 {
		d.fail(errCut)
		return 0
	}
	d.data = d.data[n:]
	return v
}

// index returns the next number of 32 bits.
func (d *decoder) index() uint32 {
	v := d.uleb()
	if v != uint64(uint32(v)) {
		d.fail(errors.New("a number of more than 32 bits"))
		return 0
	}
	return uint32(v)
}

// sleb returns the next signed LEB128 number.
func (d *decoder) sleb() int64 {
	var v int64
	for shift := 0; ; shift += 7 {
		b := d.byte()
		if shift < 64 {
			v |= int64(b&0x7f) << shift
		}
		if b&0x80 == 0 {
			if shift+7 < 64 && b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}

// vector returns the next bytes, before which stands how many they are.
func (d *decoder) vector() []byte { return d.bytes(uint64(d.index())) }

// cstring returns the next bytes up to a 0.
func (d *decoder) cstring() []byte {
	for i, b := range d.data {
		if b == 0 {
			s := d.data[:i]
			d.data = d.data[i+1:]
			return s
		}
	}
	d.fail(errCut)
	return nil
}
