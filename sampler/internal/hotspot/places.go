package hotspot

import "hash/maphash"

// placeIndex finds the places of virtual threads by their numbers. It is a table of places alone, which have the numbers: 8
// MiB for a million. The target chooses the numbers, so the hash has a seed.
type placeIndex struct {
	slots []int32 // the place and 1; 0: none
	taken int
}

// leastSlots is how long the table is at first: a power of two.
const leastSlots = 1 << 8

// slot returns where the table has a number, or would have it.
func (x *placeIndex) slot(seed maphash.Seed, id uint64, places []virtual) int {
	mask := len(x.slots) - 1
	at := int(maphash.Comparable(seed, id)) & mask
	for x.slots[at] != 0 && places[x.slots[at]-1].id != id {
		at = (at + 1) & mask
	}
	return at
}

func (x *placeIndex) find(seed maphash.Seed, id uint64, places []virtual) (place int32, known bool) {
	if id == 0 || len(x.slots) == 0 {
		return 0, false
	}
	place = x.slots[x.slot(seed, id, places)] - 1
	return place, place >= 0
}

// add adds a place whose thread has a number that is not in the table.
func (x *placeIndex) add(seed maphash.Seed, id uint64, place int32, places []virtual) {
	if 4*(x.taken+1) > 3*len(x.slots) {
		x.build(seed, places)
	}
	x.slots[x.slot(seed, id, places)] = place + 1
	x.taken++
}

// build makes the table of all places that have a thread, at most half full.
func (x *placeIndex) build(seed maphash.Seed, places []virtual) {
	taken := 0
	for i := range places {
		if places[i].id != 0 {
			taken++
		}
	}
	size := leastSlots
	for size < 2*(taken+1) {
		size *= 2
	}
	x.slots, x.taken = zeroed(x.slots, size), taken
	for i := range places {
		if places[i].id != 0 {
			x.slots[x.slot(seed, places[i].id, places)] = int32(i) + 1
		}
	}
}
