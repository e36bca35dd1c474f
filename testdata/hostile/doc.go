// Package hostile makes programs that attack the reader of their symbols: ELF files
// that run, with a few bytes of code that spin, and with tables of Go that are huge,
// endless or contradict themselves. No compiler takes part, and none of them needs a
// privilege: any user can have such a process, and wait for root to attach to it.
//
//  1. [All] lists them by name. A target's Write makes its file, which is sparse
//     where it claims gigabytes.
//  2. A file is built by a [program]: one piece of memory with a moduledata, a
//     program counter table and code, by the layout of Go 1.26 (runtime.moduledata,
//     runtime._func), and sections beside it.
//  3. Each kind breaks one thing in it, or makes it large.
//
// They are for tests and for `scripts/hostile targets`. Run them with limits of
// your own on the reader.
package hostile
