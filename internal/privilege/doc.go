// Package privilege bounds the rights of this process: it keeps capabilities away from the
// files that the caller names, and confines commands that read files of unknown origin.
//
// # Capabilities
//
// A ccmapd with file capabilities (setcap) acts for users without these capabilities. If it
// opened a path of theirs with CAP_SYS_PTRACE in effect, they would have more rights by it
// than they have: /proc/PID/cwd/x leads into directories of other users. Granted
// capabilities are those that exec gave to this process and that its caller lacks. They
// are in effect only during calls on a target:
//
//  1. [Start], before anything is opened, takes them off the effective set of every
//     thread, and drops the ones that sampling does not use.
//  2. A command names its uses of capabilities, and drops all others for good
//     ([Process.Keep]).
//  3. Around a call on a target, [Raise] puts them back in effect for the calling
//     thread, and [Section.Lower] takes them off again.
//
// # Threads
//
// Capabilities belong to threads, and a thread that the Go runtime makes inherits them
// from the thread that made it. Two facts keep raised capabilities where they are:
//
//   - A section locks its goroutine to its thread, and the runtime never makes a thread
//     from a locked one: it asks a template thread, which was made before the first
//     lock (newm and startTemplateThread in runtime/proc.go, Go 1.21 to 1.26). So
//     every new thread begins with none in effect.
//   - Nothing in a section starts a program. A program that ccmapd starts inherits
//     neither permitted nor effective capabilities by exec, since the inheritable and
//     ambient sets are the caller's own (capabilities(7)).
//
// Start reaches the threads that exist by psx, which works with cgo and without.
//
// # Root, and capabilities of one's own
//
// Root has its capabilities anyway: nothing is taken off the effective set. The same holds
// of the ambient set (a systemd unit's AmbientCapabilities), which every program that the
// caller starts has. Keep drops the ones that a command does not use, root's too.
//
// # Confinement
//
// A profile may come from anywhere. [Process.Confine] leaves a command that reads profiles
// only the rights to read files and to write its output: Landlock refuses execution and
// writing elsewhere, a seccomp filter refuses sockets, tracing and the like. A kernel may
// lack either of the two; [LandlockABI] and [HasSeccomp] say so.
package privilege
