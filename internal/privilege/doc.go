// Package privilege keeps the capabilities of this process away from what the caller
// names.
//
// A ccmapd with file capabilities (setcap) is asked by users who have none of them.
// Anything that it opens by a path of theirs with CAP_SYS_PTRACE in effect, it opens
// on their behalf with more rights than they have: /proc/PID/cwd/x leads into
// directories of other users. So capabilities that exec granted, and that the caller
// does not have, are in effect only during calls on a target:
//
//  1. [Start], before anything is opened, takes them off the effective set of every
//     thread, and drops those that sampling does not use.
//  2. A command that samples no other process drops the rest ([Process.Drop]).
//  3. Around a call on a target, [Raise] puts them back in effect for the calling
//     thread, and [Section.Lower] takes them off again.
//
// # Threads
//
// Capabilities belong to threads, and a thread that the Go runtime makes has those of
// the thread that made it. Two facts keep raised capabilities where they are:
//
//   - A section locks its goroutine to its thread, and the runtime never makes a thread
//     from a locked one: it asks a template thread, which was made before the first
//     lock (newm and startTemplateThread in runtime/proc.go, Go 1.21 to 1.26). So
//     every new thread begins with none in effect.
//   - Nothing in a section starts a program. A program that ccmapd starts inherits
//     neither permitted nor effective capabilities by exec, since the inheritable and
//     ambient sets are those of the caller (capabilities(7)).
//
// Start reaches the threads that exist by psx, which works with cgo and without.
//
// # Root, and capabilities of one's own
//
// Root has its capabilities anyway: nothing is taken off. Neither are those in the
// ambient set (a systemd unit's AmbientCapabilities), which every program that the
// caller starts has.
package privilege
