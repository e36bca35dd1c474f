// Package tlab says how many bytes each allocation stands for that a JVM's recorder tells.
//
//	refills, objects outside of buffers, pauses ─▶ Weigher ─▶ bytes of each
//
// A thread of HotSpot allocates in a buffer of its own, the TLAB. The recorder tells of an object
// only if the buffer has no room for it: jdk.ObjectAllocationInNewTLAB where the thread then takes
// a new buffer, and jdk.ObjectAllocationOutsideTLAB where it keeps the old one and puts the
// object elsewhere. So an object is seen with a probability that grows with its size:
//
//  1. The bytes of objects that are seen are known. So is the sum of all others: what the buffers had room
//     for.
//  2. A thread keeps its buffer while more than a 64th of the size is left in it
//     (TLABRefillWasteFraction; the limit grows by 32 bytes with each object outside,
//     TLABWasteIncrement). So where large objects do not fit any more, the
//     buffer goes on with small ones, and all large objects are seen. And below the
//     limit it is nearly always a large object that ends the buffer.
//  3. A [Weigher] finds for each size the probability of being seen, F: the part of all allocations
//     that meet a buffer with less room. It walks through a buffer as the JVM does, with the mix of sizes
//     that it has seen, each divided by F, until mix and F agree.
//  4. An object that was seen stands for its own bytes, and for (1−F)/F others of its size. All these are
//     scaled to the sum that is known.
//
// At the pauses of a collector the JVM takes all buffers away. The first object after that is seen
// whatever its size. It stands for itself alone.
//
// The rules are those of ThreadLocalAllocBuffer and MemAllocator in OpenJDK 17 and 25
// (src/hotspot/share/gc/shared: threadLocalAllocBuffer.cpp, memAllocator.cpp). They were tried with the collectors
// G1, Serial, Parallel and Z.
//
// OpenJDK 17.0.21 gives a thread no new buffer where a region of G1's heap ends. The object that has ended the
// buffer lies outside, at the beginning of the next region. The thread's next object has a new buffer, and is seen
// whatever its size. A Weigher knows such a pair: an object outside that is too small for that, or that is
// followed at once by a small one with a new buffer.
package tlab
