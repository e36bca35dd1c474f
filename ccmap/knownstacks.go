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
// It holds no frames. A stack is known by 96 bits of its [stackID]. The table is open
// addressing with linear probing.
type knownStacks struct {
	seed    uint64
	keys    *stackKeys // nil before the first stack
	slots   []knownStack
	used    int
	refused int // stacks that found no room since the slots were full
}

// knownStack is one slot.
type knownStack struct {
	high uint64 // of the id
	low  uint32 // bits of the id
	node NodeID // where samples of the stack count; 0: the slot is empty
}

// Bounds of the known stacks.
const (
	maxKnownDepth = 512 // frames; a deeper stack is walked
	minKnownSlots = 64
	knownShare    = 8 // part of the memory of nodes and counters that the slots may take
)

// id returns the id of a stack of at most maxKnownDepth frames.
func (k *knownStacks) id(frames []Frame) stackID {
	if k.keys == nil {
		k.keys = newStackKeys(k.seed)
	}
	return k.keys.id(frames)
}

// find returns the node where samples of a stack count, 0 if the stack is not known.
func (k *knownStacks) find(id stackID) NodeID {
	if len(k.slots) == 0 {
		return 0
	}
	return k.slots[k.search(id.high, uint32(id.low))].node
}

// search returns the slot of a stack, or an empty one if the stack is not known.
func (k *knownStacks) search(high uint64, low uint32) int {
	for i := int(high >> 32 * uint64(len(k.slots)) >> 32); ; i++ {
		if i == len(k.slots) {
			i = 0
		}
		if e := &k.slots[i]; e.high == high && e.low == low || e.node == 0 {
			return i
		}
	}
}

// add remembers a stack that is not known, if there is room. room says how many bytes
// the slots may take. They are emptied once as many stacks found no room as there are slots.
func (k *knownStacks) add(id stackID, n NodeID, room func() int64) {
	if (k.used+1)*maxLoadDen > len(k.slots)*maxLoadNum && !k.grow(room) {
		if k.refused++; len(k.slots) == 0 || k.refused < len(k.slots) {
			return
		}
		clear(k.slots)
		k.used, k.refused = 0, 0
	}
	k.place(knownStack{id.high, uint32(id.low), n})
	k.used++
}

func (k *knownStacks) place(e knownStack) { k.slots[k.search(e.high, e.low)] = e }

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

// forget drops all stacks and their memory. The keys stay.
func (k *knownStacks) forget() { k.slots, k.used, k.refused = nil, 0, 0 }

// bytes returns the memory held.
func (k *knownStacks) bytes() int64 { return slotBytes(len(k.slots)) + k.keyBytes() }

func (k *knownStacks) keyBytes() int64 {
	if k.keys == nil {
		return 0
	}
	return int64(unsafe.Sizeof(*k.keys))
}

func slotBytes(n int) int64 { return int64(n) * int64(unsafe.Sizeof(knownStack{})) }

// stackID stands for a stack: a hash with secret random keys. For any two stacks, also chosen
// ones, the 96 bits that are kept are equal with a probability of at most 2⁻⁹³.
type stackID struct{ high, low uint64 }

// stackKeys are the random numbers of the hash: one for each frame and two more for
// the second of two sums, and the factors that reduce each sum.
//
// The sums are NH, the universal hash of UMAC (Black, Halevi, Krawczyk, Krovetz and Rogaway, CRYPTO
// 1999): products of pairs of frames, each frame with its key added. The second sum takes the same
// keys moved by one pair. Two stacks of one depth share such a sum with a probability of 2⁻⁶⁴.
// The reduction is multilinear (Lemire and Kaser, The Computer Journal 2014).
type stackKeys struct {
	frames  [maxKnownDepth + 2]uint64
	factors [2][3]wide
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
		for j := range k.factors[i] {
			k.factors[i][j] = wide{r.Uint64(), r.Uint64()}
		}
	}
	return k
}

// id returns the id of a stack of at most maxKnownDepth frames.
func (k *stackKeys) id(frames []Frame) stackID {
	var a, b wide
	i, keys := 0, &k.frames
	for ; i+4 <= len(frames); i += 4 {
		f, p := (*[4]Frame)(frames[i:]), (*[6]uint64)(keys[i:])
		x, y, z, u := f[0].word(), f[1].word(), f[2].word(), f[3].word()
		a = a.plusProduct(x+p[0], y+p[1]).plusProduct(z+p[2], u+p[3])
		b = b.plusProduct(x+p[2], y+p[3]).plusProduct(z+p[4], u+p[5])
	}
	for ; i+2 <= len(frames); i += 2 {
		x, y, p := frames[i].word(), frames[i+1].word(), (*[4]uint64)(keys[i:])
		a = a.plusProduct(x+p[0], y+p[1])
		b = b.plusProduct(x+p[2], y+p[3])
	}
	if i < len(frames) { // the last pair has a frame of 0
		x, p := frames[i].word(), (*[4]uint64)(keys[i:])
		a = a.plusProduct(x+p[0], p[1])
		b = b.plusProduct(x+p[2], p[3])
	}
	return stackID{k.reduce(0, a, len(frames)), k.reduce(1, b, len(frames))}
}

// reduce hashes one of the sums, and the depth of the stack.
func (k *stackKeys) reduce(i int, sum wide, depth int) uint64 {
	f := &k.factors[i]
	return wide{}.plusMultiple(f[0], sum.hi).plusMultiple(f[1], sum.lo).plusMultiple(f[2], uint64(depth)).hi
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
