package ccmap

import (
	"math/bits"
	"math/rand/v2"
	"unsafe"
)

// knownStacks finds the node of a whole stack without a walk. It is a cache of the stacks
// that were walked since node ids last changed: a stack that it does not know is
// walked again.
//
// It holds no frames. A stack is known by its [stackID]. The table is open addressing with linear
// probing.
type knownStacks struct {
	seed    uint64
	keys    *stackKeys // nil before the first stack
	slots   []knownStack
	used    int
	refused int // stacks that found no room since the slots were full
}

// knownStack is one slot.
type knownStack struct {
	hash  uint64
	depth uint32
	node  NodeID // where samples of the stack count; 0: the slot is empty
}

func (e *knownStack) id() stackID { return stackID{e.hash, e.depth} }

// stackID stands for a stack: its depth, and a hash with secret random keys. Stacks of different depths
// have different ids. For any two stacks of one depth, also chosen ones, the ids are equal with a
// probability of at most 2⁻⁶³.
type stackID struct {
	hash  uint64
	depth uint32
}

// blockFrames are hashed together.
const blockFrames = 8

// Bounds of the known stacks.
const (
	maxKnownDepth = 512 // frames; a deeper stack is walked
	minKnownSlots = 64
	knownShare    = 8        // part of the memory of nodes and counters that the slots may take,
	knownBytes    = 32 << 10 // or these
)

// id returns the id of a stack of at most maxKnownDepth frames.
func (k *knownStacks) id(frames []Frame) stackID {
	if k.keys == nil {
		k.keys = newStackKeys(k.seed)
	}
	return k.keys.id(frames)
}

// find returns the node where samples of a stack count, 0 if the stack is not known or has no id.
func (k *knownStacks) find(id stackID) NodeID {
	if len(k.slots) == 0 || id == (stackID{}) {
		return 0
	}
	return k.slots[k.search(id)].node
}

// search returns the slot of a stack, or an empty one if the stack is not known.
func (k *knownStacks) search(id stackID) int {
	for i := int(id.hash >> 32 * uint64(len(k.slots)) >> 32); ; i++ {
		if i == len(k.slots) {
			i = 0
		}
		if e := &k.slots[i]; e.id() == id || e.node == 0 {
			return i
		}
	}
}

// remember keeps a stack that is not known, if there is room. room says how many bytes
// the slots may take. They are emptied once as many stacks found no room as there are slots.
func (k *knownStacks) remember(id stackID, n NodeID, room func() int64) {
	if (k.used+1)*maxLoadDen > len(k.slots)*maxLoadNum && !k.grow(room) {
		if k.refused++; len(k.slots) == 0 || k.refused < len(k.slots) {
			return
		}
		clear(k.slots)
		k.used, k.refused = 0, 0
	}
	k.place(knownStack{id.hash, id.depth, n})
	k.used++
}

func (k *knownStacks) place(e knownStack) { k.slots[k.search(e.id())] = e }

// grow doubles the slots, unless they may not grow.
func (k *knownStacks) grow(room func() int64) bool {
	old, n := k.slots, max(2*len(k.slots), minKnownSlots)
	if slotBytes(n) > room() {
		return false
	}
	k.slots = make([]knownStack, n)
	for _, e := range old {
		if e.node != 0 {
			k.place(e)
		}
	}
	return true
}

// forgetAll drops all stacks and their memory. The keys stay.
func (k *knownStacks) forgetAll() { k.slots, k.used, k.refused = nil, 0, 0 }

// bytes returns the memory held.
func (k *knownStacks) bytes() int64 { return slotBytes(len(k.slots)) + k.keyBytes() }

func (k *knownStacks) keyBytes() int64 {
	if k.keys == nil {
		return 0
	}
	return int64(unsafe.Sizeof(*k.keys))
}

func slotBytes(n int) int64 { return int64(n) * int64(unsafe.Sizeof(knownStack{})) }

// stackKeys are the random numbers of the hash: one for each frame, with more for the last ones, and
// three that reduce the sum.
//
// The sum is NH, the universal hash of UMAC (Black, Halevi, Krawczyk, Krovetz and Rogaway, CRYPTO
// 1999): products of pairs of frames, each frame with its key added. Two stacks of one depth share
// the sum with a probability of at most 2⁻⁶⁴. With vectors a frame is a pair of its own, of method and offset,
// and there are two sums ([sums]): two stacks share each with a probability of at most 2⁻³², and both with
// 2⁻⁶⁴, also where the keys of one are the moved keys of the other (the Toeplitz construction of the same
// paper). The reduction is multilinear (Lemire and Kaser, The Computer
// Journal 2014): two sums have the same upper half then with a probability of 2⁻⁶⁴.
type stackKeys struct {
	frames  [blockFrames + maxKnownDepth]uint64
	factors [2]wide
	addend  wide
}

// wide is a number of 128 bits.
type wide struct{ hi, lo uint64 }

func newStackKeys(seed uint64) *stackKeys {
	var s [32]byte
	for i := range 8 {
		s[i] = byte(seed >> (8 * i))
	}
	r := rand.NewChaCha8(s)
	k := new(stackKeys)
	for i := range k.frames {
		k.frames[i] = r.Uint64()
	}
	for i := range k.factors {
		k.factors[i] = wide{r.Uint64(), r.Uint64()}
	}
	k.addend = wide{r.Uint64(), r.Uint64()}
	return k
}

// id returns the id of a stack of at most maxKnownDepth frames.
func (k *stackKeys) id(frames []Frame) stackID {
	var sum wide
	switch {
	case len(frames) < blockFrames:
		sum = k.sumOfFew(frames)
	case hasVectors:
		sum.hi, sum.lo = sums(&k.frames, frames)
	default:
		sum = k.sum(frames)
	}
	sum = k.addend.plusMultiple(k.factors[0], sum.hi).plusMultiple(k.factors[1], sum.lo)
	return stackID{sum.hi, uint32(len(frames))}
}

// sumOfFew returns the sum of less than a block of frames.
func (k *stackKeys) sumOfFew(frames []Frame) wide {
	var few [blockFrames]Frame
	copy(few[:], frames)
	return k.sum(few[:])
}

// sum returns the sum of a block of frames or more. The last ones count twice, with keys of their own, so that
// no stack needs a shorter block.
func (k *stackKeys) sum(frames []Frame) (sum wide) {
	rest, keys := frames, k.frames[:]
	for f := (*[blockFrames]Frame)(frames[len(frames)-blockFrames:]); ; keys = keys[blockFrames:] {
		p := (*[blockFrames]uint64)(keys)
		sum = sum.plusProduct(f[0].word()+p[0], f[1].word()+p[1])
		sum = sum.plusProduct(f[2].word()+p[2], f[3].word()+p[3])
		sum = sum.plusProduct(f[4].word()+p[4], f[5].word()+p[5])
		sum = sum.plusProduct(f[6].word()+p[6], f[7].word()+p[7])
		if len(rest) < blockFrames {
			return sum
		}
		f, rest = (*[blockFrames]Frame)(rest), rest[blockFrames:]
	}
}

// word is the frame as one number.
func (f Frame) word() uint64 { return uint64(f.Offset)<<32 | uint64(f.Method) }

// plusProduct returns w + x·y, mod 2¹²⁸.
func (w wide) plusProduct(x, y uint64) wide {
	hi, lo := bits.Mul64(x, y)
	lo, carry := bits.Add64(w.lo, lo, 0)
	hi, _ = bits.Add64(w.hi, hi, carry)
	return wide{hi, lo}
}

// plusMultiple returns w + f·x, mod 2¹²⁸.
func (w wide) plusMultiple(f wide, x uint64) wide {
	w = w.plusProduct(f.lo, x)
	w.hi += f.hi * x
	return w
}
