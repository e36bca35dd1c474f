package export

import (
	"math/bits"
	"math/rand/v2"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
)

// knownStacks finds the nodes of whole stacks in a sum of many profiles, which have most of their
// stacks in common: a stack that is known is not walked again. It is open addressing with linear
// probing, at most three quarters full, and takes a small part of the sum's memory.
type knownStacks struct {
	keys   stackKeys
	slots  []knownStack
	used   int
	pruned uint64 // how often the sum was, which changes ids of nodes
}

// knownStack is a slot. A stack is known by 96 bits of its id.
type knownStack struct {
	high uint64
	low  uint32
	node ccmap.NodeID // where samples of the stack count; root: the slot is empty
}

const (
	leastKnownSlots = 1 << 6
	mostKnownSlots  = 1 << 20
	knownShare      = 4 // of the sum's memory; a power of two, as all sizes
)

// of makes the stacks of a sum known, and forgets them if nodes have other ids now.
func (k *knownStacks) of(sum *ccmap.Map) *knownStacks {
	if times := sum.Meta().Pruned.Times; times != k.pruned {
		k.slots, k.used, k.pruned = nil, 0, times
	}
	if k.keys == (stackKeys{}) {
		k.keys = newStackKeys()
	}
	return k
}

// find returns the node where a stack ends, root if the stack is not known.
func (k *knownStacks) find(id stackID) ccmap.NodeID {
	if len(k.slots) == 0 {
		return root
	}
	return k.slot(knownStack{high: id.high(), low: uint32(id[1])}).node
}

// slot returns the slot of a stack, or the empty one for it.
func (k *knownStacks) slot(of knownStack) *knownStack {
	mask := uint64(len(k.slots) - 1)
	for i := of.high >> 32; ; i++ {
		if s := &k.slots[i&mask]; s.node == root || s.high == of.high && s.low == of.low {
			return s
		}
	}
}

// bytes returns the memory of the slots.
func (k *knownStacks) bytes() int64 { return slotBytes(len(k.slots)) }

func slotBytes(slots int) int64 { return int64(slots) * int64(unsafe.Sizeof(knownStack{})) }

// remember keeps where a new stack ends in the sum, if there is room.
func (k *knownStacks) remember(id stackID, n ccmap.NodeID, sum *ccmap.Map) {
	if 4*(k.used+1) > 3*len(k.slots) && !k.grow(sum.Bytes()/knownShare) {
		return
	}
	s := knownStack{id.high(), uint32(id[1]), n}
	*k.slot(s) = s
	k.used++
}

// grow doubles the slots, unless they would take more bytes than there may be.
func (k *knownStacks) grow(most int64) bool {
	old, slots := k.slots, max(2*len(k.slots), leastKnownSlots)
	if slots > mostKnownSlots || slotBytes(slots) > most {
		return false
	}
	k.slots = make([]knownStack, slots)
	for _, s := range old {
		if s.node != root {
			*k.slot(s) = s
		}
	}
	return true
}

// stackID stands for a stack: the values of two polynomials over the field of 2⁶¹-1 elements at
// secret random points. A slot has the first value and 35 bits of the second. Two stacks of at most
// n frames, also chosen ones, share these with a probability of at most n/2⁶¹ · n/2³⁴ = n²/2⁹⁵.
type stackID [2]uint64

// firstStackID is the id of no frames. Longer stacks have polynomials of a higher degree.
var firstStackID = stackID{1, 1}

// high returns all bits of one value, and three of the other.
func (id stackID) high() uint64 { return id[0]<<3 | id[1]>>58 }

// then returns the id of a stack that goes on with the frames of a location.
func (id stackID) then(l *stackLink) stackID {
	return stackID{mulAdd(id[0], l.times[0], l.plus[0]), mulAdd(id[1], l.times[1], l.plus[1])}
}

// stackLink are some frames of a stack: id·times + plus is the id of the longer stack.
type stackLink struct{ times, plus stackID }

// stackKeys are the random points, and the factors that make one number of a frame.
type stackKeys struct{ points, factors stackID }

func newStackKeys() stackKeys {
	random := func() uint64 { return 1 + rand.Uint64N(order61-1) }
	return stackKeys{stackID{random(), random()}, stackID{random(), random()}}
}

// link returns the link of frames, outermost first.
func (k *stackKeys) link(frames []ccmap.Frame) stackLink {
	l := stackLink{times: stackID{1, 1}}
	for _, f := range frames {
		for i, point := range k.points {
			number := mulAdd(uint64(f.Method), k.factors[i], uint64(f.Offset))
			l.times[i], l.plus[i] = mulAdd(l.times[i], point, 0), mulAdd(l.plus[i], point, number)
		}
	}
	return l
}

// order61 is how many elements the field has: a Mersenne prime.
const order61 = 1<<61 - 1

// mulAdd returns x·y + z in the field.
func mulAdd(x, y, z uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	sum := hi<<3 | lo>>61
	sum += lo&order61 + z
	sum = sum&order61 + sum>>61
	if sum >= order61 {
		sum -= order61
	}
	return sum
}
