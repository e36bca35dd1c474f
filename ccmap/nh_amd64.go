package ccmap

import "github.com/klauspost/cpuid/v2"

// hasVectors says that the processor and the system know vectors of 256 bits (AVX2).
var hasVectors = cpuid.CPU.Supports(cpuid.AVX2)

// sums returns two sums of the products of methods and offsets, each with its half of a key added, mod 2³².
// The keys of the second sum are those of the first, moved by four. There are a block of frames at least,
// and maxKnownDepth at most. The last block counts with the keys after those before it.
//
//go:noescape
func sums(keys *[blockFrames + maxKnownDepth]uint64, frames []Frame) (hi, lo uint64)
