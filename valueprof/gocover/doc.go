// Package gocover reads what programs built with 'go build -cover' count in their
// GOCOVERDIR: how often every block of statements was executed, exactly. It reads
// the binary files themselves, as 'go tool covdata' does.
//
//  1. [ReadDir] finds the meta-data files of a directory (covmeta.HASH) and makes a
//     [Program] of each: its packages, functions and blocks ([ReadMeta]).
//  2. Every counter file (covcounters.HASH.PID.TIME) belongs to the meta-data file of
//     the same hash; runs of one program add up ([Program.Add]). Programs are kept
//     apart.
//  3. [ParseSource] reads a source file, and [Source.Split] says with it what the
//     blocks of a function are to each other: which belong to function literals, how
//     often a condition was true and false, and which cases a switch chose.
//
// # What the format knows, and what the source
//
// A block is a run of statements that nothing jumps into; its counter stands at its
// beginning (cmd/cover, addCounters, Go 1.26). The count of the first block of a
// function is that of its calls. What follows a block is not recorded: the body of
// an if, of a loop and of a function literal, and a bare block, each begin where the
// block before them ends. To take those for a branch that are executed at most as
// often as the block before them is right for most: of 3,389 such pairs in a run of
// ccmapd, the bodies of 320 were loops and literals ('defer func() {…}()' would be a
// condition that is always true). So there are no branches without the source, only
// blocks, and those of function literals stand with the function around them.
//
// The source tells, if it has every block of the function where the program had it:
//
//   - A branch is an if. Taken is the count of its body. Untaken is that of its else
//     or, where there is none, the count of the block that ends in the condition, less
//     taken: a panic or runtime.Goexit in that block, before the condition or in it,
//     counts as untaken, and so does a goroutine that is there when the counters are
//     written.
//   - A switch has the counts of its cases, less what falls through into them. What
//     is left of the block that ends in the switch has chosen no case. A select has
//     cases only.
//   - A loop has blocks only: how often its condition was false is not counted.
//     Neither are operands of && and ||, nor a range over a function.
//   - In mode set there are no branches and no switches: counters say whether a block
//     was executed, not how often.
//
// A counter has 32 bits and wraps around; the program does not notice. In mode count,
// goroutines that execute the same block lose counts to each other; in mode atomic
// they do not.
//
// # Names
//
// Functions get the names that the runtime gives them. Two things are not in the
// files, and need the source: the receiver of a method of a generic type, without
// which "(*List[...]).Push" is called "Push", and type parameters, without which
// "Map[...]" is called "Map". The counts of a generic function are those of all its
// instances. Function literals are numbered in the order of the source, as the
// compiler does (Go 1.21 and later) unless it drops one in dead code, or unless those
// at package level are initialized in another order. Copies of a literal that the
// compiler has inlined elsewhere, and named after that place, count with the literal;
// bodies of loops over functions, which it calls "F-range1", count with F.
//
// All input may be hostile: sizes are bounded by those of the files, which are at
// most [MaxFileSize], and nothing panics.
package gocover
