// Package manager keeps the Call Context Map of one session. It is the paper's
// CC-Map manager thread (Chilingarova and Safonov, ".NET Technologies 2006",
// section 3.2): one goroutine, the one that called [Manager.Run], owns the map
// and does all of this in turns.
//
//  1. A [sampler.Source] runs in a goroutine of its own and pushes samples into
//     the queue.
//  2. The manager waits for the queue, drains it and folds every sample into
//     the map, counting repetitions of the top activation. A value profile counts
//     which methods the sampled calls reach; another one those that calls reach
//     which the source has caught one by one, and which are no samples.
//  3. It tells the [Tuner] what a turn has brought; if the tuner wants another
//     interval, it sets it at the source, logs why and keeps that in the map's
//     metadata.
//  4. It has a goroutine beside it find out how settled the map is: what two
//     halves of its samples overlap, whenever they are a fifth more than at the
//     last time, and whether the latest thousand differ from those before. If they
//     do, the value profiles begin anew. The session ends when a [Goal] is reached.
//  5. It publishes a snapshot if a reader has asked for one, with profile points
//     of what the value profiles know, and raises an [Event] for every method and
//     edge that has become hot.
//  6. When the source has ended, it drains what is left, writes the [Dump]s and
//     returns a [Report].
//
// A program that profiles what it runs itself has all that in the background, by
// [Start].
//
// Nobody waits for the manager, neither the source's threads, whose samples are
// dropped and counted if it falls behind, nor readers, who take the snapshot
// that was published last.
package manager
