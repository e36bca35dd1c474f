// Package hosted follows a Go program that hosts VMs which sample themselves, and that mounts the routes of
// api.Handler (package daemon/api). The program may run anywhere.
//
//  1. [Open] checks the address, and asks the program for its sessions. A server without such routes is
//     [ErrNotHosted].
//  2. [Source.Run] asks for the whole map of each session, again and again. A map counts from the start of its
//     session. So the Source delivers its gain: all that the map has counted since the last look ([ccmap.Delta]).
//  3. The gains of all sessions together are one profile. It goes to the consumer of [Source.Profiles], which
//     owns it from then on. It has activations, repetitions and profile points; [sampler.Stats] has
//     the losses of the program.
//  4. The first look at a program delivers nothing, since earlier samples do not belong to the
//     session. [Last] keeps the maps of the last look, for the Source of a later session. After a break that
//     one delivers the samples of the break, too.
//  5. If a request fails, the next one follows after a pause that grows, with jitter. Failed requests are
//     counted in the warning of Stats. Where the server refuses, or is another program by a build id, Run
//     ends, and after so many failures as Options.MaxFailures permits.
//  6. When Run is told to stop, it looks once more, so that nothing is missing at the end.
//
// # Restarts
//
// A session whose start has changed is another one: all of its map is gain. A map that has the same start
// and has shrunk was restored from an older state of itself. It is the base of later looks, so that
// nothing counts twice.
//
// # What is missing
//
// The samples between the last look and the end of a program are lost. The phases of a
// program and the decay of a window are each session's own: points count for all phases, and the consumer
// has a window by the times of looks.
//
// # Hostile servers
//
// The server is not trusted (see package served). Options bound the bytes and the memory of all maps of one look
// together, and the names that all looks bring. Every request has a deadline. If the server gets credentials, no
// error repeats any of its answers.
package hosted
