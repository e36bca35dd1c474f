// Package queue carries samples from the threads that take them to the one
// goroutine that folds them. It has no lock on the way, and no thread ever waits
// (Chilingarova and Safonov, ".NET Technologies 2006", section 3.2):
//
//  1. Every producer takes a [Ring], its local queue, from the [Queue], the
//     global one. [Ring.Push] copies a sample into the ring's own memory.
//  2. Every tenth sample, and when the producer parks or ends, the ring publishes
//     its samples: it moves its tail and marks itself dirty.
//  3. The consumer waits for [Queue.Ready] and calls [Queue.Drain]. Drain visits
//     the dirty rings only, and hands out each sample in the ring's memory. The
//     step to the next sample returns the memory of the last one to its ring.
//  4. The buffer of a closed ring goes to the next new producer, with the samples
//     that were not drained yet.
//
// A full ring refuses the newest sample and counts it, so every loss is counted. Once
// every ring has been closed and drained, [Stats] has Pushed equal to Delivered plus
// Dropped. The largest number of rings that were open at one time fixes the memory,
// even if the consumer falls far behind.
package queue
