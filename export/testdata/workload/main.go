// Command workload is compiled with a profile of it in tools_test.go, which
// knows its functions and lines.
package main

// mix costs more than the inliner allows a function that is not hot.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	if h&1 == 0 {
		h += h<<7 | h>>57
		h ^= h<<21 | h>>43
		h *= 0x9e3779b97f4a7c15
		h += h<<9 | h>>55
		h ^= h<<14 | h>>50
		h -= h<<3 | h>>61
		h ^= h<<31 | h>>33
		h *= 0x2545f4914f6cdd1d
	}
	return h ^ h>>29
}

func main() {
	sum := uint64(1)
	for range 1000 {
		sum += mix(sum)
	}
	println(sum)
}
