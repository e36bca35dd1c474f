// Package attach sends commands to a running JVM by HotSpot's attach mechanism, which jcmd and
// jstack use, too. The JVM needs no flag, and nothing is loaded into it.
//
//	Open ─▶ is it a JVM? does it handle SIGQUIT? ─▶ socket there? ──────────────────┐
//	                                                 └ no ─▶ attach file ─▶ SIGQUIT ─┴▶ Command
//
// A JVM makes its socket when it gets SIGQUIT and finds the file .attach_pidN in its /tmp
// (src/hotspot/os/posix/attachListener_posix.cpp, OpenJDK 17 to 25). A SIGQUIT that is not
// expected kills a program that is no JVM, and makes a JVM print a thread dump into its
// output. So the signal is sent only to a process that handles it, and only while our file is
// there. With -Xrs a JVM handles no SIGQUIT, and has its socket from the beginning.
//
// # Trust
//
// The JVM may be hostile, and so may all that can write to its /tmp:
//
//   - Paths begin at the target's own root directory, and are opened without following a
//     symbolic link (openat2 with RESOLVE_IN_ROOT and RESOLVE_NO_SYMLINKS). A container's
//     /tmp is the container's.
//   - The socket must be a socket of the target's user, and whoever listens must be the
//     target itself (SO_PEERCRED), before a byte is written to it.
//   - A file for a command that reads one is made new, under a name that cannot be guessed,
//     and removed after the answer. It holds nothing secret.
//   - Files of the target's are read only if they are regular ones of its user, and only in a
//     folder that was opened so.
//   - Signals go to a pidfd: a process that has got the same number later is not hit.
//   - An answer is at most 1 MiB long and comes within a time. It is a foreign text.
//
// The JVM accepts its own user and group, and root. Only its user and CAP_KILL can send it SIGQUIT: root's command
// has that capability in effect for the one call (internal/privilege). Without it root can talk to a JVM of
// another user once its user has woken it, for example by jcmd. To a JVM in another namespace of users root is
// nobody, so root becomes the JVM's user for the connection.
//
// A Target may be used by one goroutine at a time, and by another one for OpenFolder and OpenIn. Any command may
// take seconds: hold no lock that others wait for.
package attach
