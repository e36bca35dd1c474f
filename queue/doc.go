// Package queue carries samples from the threads that take them to the one
// goroutine that folds them, without a lock on the way and without ever making
// a thread wait (Chilingarova and Safonov, ".NET Technologies 2006", section
// 3.2):
//
//  1. Every producer takes a [Ring], its local queue, from the [Queue], the
//     global one. [Ring.Push] copies a sample into the ring's own memory.
//  2. Every tenth sample, and when the producer parks or ends, the ring
//     publishes what it holds: it moves its tail and marks itself dirty.
//  3. The consumer waits for [Queue.Ready] and calls [Queue.Drain], which visits
//     the dirty rings only and hands out each sample where it lies. Going on to
//     the next sample returns the memory of the last one to its ring.
//  4. The buffer of a closed ring is put aside for the next new producer,
//     together with whatever in it was not yet drained.
//
// A full ring refuses the newest sample and counts it. Nothing is lost
// uncounted: once every ring has been closed and drained, [Stats] has Pushed
// equal to Delivered plus Dropped. The memory is fixed by the largest number of
// rings that were open at one time, however far the consumer falls behind.
package queue
