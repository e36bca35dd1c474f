// Package manager keeps the Call Context Map of one session. It is the paper's
// CC-Map manager thread (Chilingarova and Safonov, ".NET Technologies 2006",
// section 3.2). The goroutine that calls [Manager.Run] owns the map and works in
// turns:
//
//  1. A [sampler.Source] runs in a goroutine of its own and pushes samples into
//     the queue.
//  2. The manager waits for the queue, drains it, folds every sample into the map
//     and counts repetitions of the top activation. Some entries of the queue are
//     not samples but calls that the source has caught. A value profile counts the
//     methods that these calls reach.
//  3. The manager reports each turn to the [Tuner]. If the tuner wants another
//     interval, the manager sets it at the source, logs the reason and keeps the
//     change in the map's metadata.
//  4. A second goroutine judges the map. It finds out how much two halves of the
//     samples overlap, each time there are a fifth more samples. It also finds out
//     whether the latest thousand samples differ from the samples before. If they
//     do, the program drifts, and a new phase begins for the value profile. The
//     session ends when a [Goal] is reached.
//  5. The manager publishes a snapshot if a reader has asked for one, with profile
//     points from the value profile. It raises an [Event] for every method, edge
//     and path that has become hot by [Thresholds].
//  6. When the source has ended, the manager drains the rest, writes the [Dump]s
//     and returns a [Report].
//
// [Start] does all this in the background, for a program that profiles code that
// it runs itself.
//
// Nothing waits for the manager. If it falls behind, the source's threads drop
// samples and count them. Readers take the snapshot that was published last.
package manager
