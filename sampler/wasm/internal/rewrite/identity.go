package rewrite

import (
	"github.com/cespare/xxhash/v2"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/format"
)

// Hashes returns a hash of each function that a module defines, in order: of its locals and
// instructions, with names in place of the indices that a linker gives, of functions, and types in
// place of theirs. A function of another build of the module that has the same code has the same hash.
// Indices of globals and tables, and addresses of data, are part of the code as they are: few modules
// name them, and no instruction tells an address from another number. No hash is 0 or all bits.
//
// The cost is linear in the bytes of the code. The error is a *RefusedError.
func Hashes(module []byte, function func(index uint32) string) ([]uint64, error) {
	m, err := parse(module)
	if err != nil {
		return nil, &RefusedError{err.Offset, err.Reason}
	}
	hashes, h := make([]uint64, len(m.bodies)), hasher{original: m, function: function}
	for i := range hashes {
		if hashes[i], err = h.hash(i); err != nil {
			return nil, &RefusedError{err.Offset, err.Reason}
		}
	}
	return hashes, nil
}

// hasher hashes one function after the other.
type hasher struct {
	*original
	function func(index uint32) string
	digest   xxhash.Digest
	hashed   int // offset in the module: the code of the function before it is hashed
}

func (h *hasher) hash(i int) (uint64, *format.Error) {
	h.digest.Reset()
	h.hashed = h.bodies[i].start
	d, _ := h.body(i)
	for d.next() {
		switch d.op {
		case opCall, opReturnCall, opRefFunc:
			h.replace(&d, h.function(d.index))
		case opCallIndirect, opReturnCallIndirect:
			h.replaceType(&d, d.index)
			h.digest.Write(appendU32([]byte{0}, d.table))
		case opBlock, opLoop, opIf:
			if d.block >= 0 {
				h.replaceType(&d, uint32(d.block))
			}
		}
	}
	h.digest.Write(h.data[h.hashed:d.At])
	return min(max(h.digest.Sum64(), 1), 1<<64-2), d.Err
}

// replace hashes a text in place of what follows the opcode.
func (h *hasher) replace(d *decoder, texts ...string) {
	h.digest.Write(h.data[h.hashed : d.start+1])
	for _, text := range texts {
		h.digest.WriteString(text)
		h.digest.Write([]byte{0})
	}
	h.hashed = d.At
}

func (h *hasher) replaceType(d *decoder, index uint32) {
	t := h.types[index]
	h.replace(d, string(t.params), string(t.results))
}
