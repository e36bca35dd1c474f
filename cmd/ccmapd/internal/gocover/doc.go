// Package gocover reads the coverage files of programs built with 'go build -cover'
// from their GOCOVERDIR: how often each block of statements was executed, exactly. It
// reads the binary files itself, as 'go tool covdata' does.
//
//  1. [ReadDir] finds the meta-data files of a directory (covmeta.HASH) and makes a
//     [Program] of each: its packages, functions and blocks.
//  2. Every counter file (covcounters.HASH.PID.TIME) belongs to the meta-data file
//     with the same hash. [Program.Add] adds up the runs of one program. Programs stay
//     apart.
//  3. [ParseSource] reads a source file. [Source.Split] uses it to explain the blocks
//     of a function: which blocks belong to function literals, how often a condition
//     was true and false, and which cases a switch chose.
//
// # The format and the source
//
// A block is a run of statements that nothing jumps into. Its counter is at its
// beginning (cmd/cover, addCounters, Go 1.26). The count of the first block of a
// function is the number of its calls. The format does not record the kind of the next
// block: the body of an if, of a loop and of a function literal, and a bare block, each
// begin where the block before them ends. It would be wrong to call each block a branch
// that is executed at most as often as the block before. In a run of ccmapd 320 of
// 3,389 such pairs were bodies of loops and literals ('defer func() {…}()' would be a
// condition that is always true). So without the source there are only blocks and no
// branches, and the blocks of function literals belong to the function around them.
//
// The source tells more, if every block of the function is where the program had it:
//
//   - A branch is an if. Taken is the count of its body. Untaken is the count of its
//     else. Without an else, it is the count of the block that ends in the condition,
//     less taken. A panic or runtime.Goexit in that block, before or in the condition,
//     counts as untaken. So does a goroutine that is there when the counters are
//     written.
//   - A switch has the counts of its cases, less the executions that fall through into
//     them. The rest of the block that ends in the switch has chosen no case. A select
//     has cases only.
//   - A loop has blocks only: the counters do not tell how often its condition was
//     false. They do not count operands of && and ||, nor a range over a function.
//   - In mode set there are no branches and no switches: counters say whether a block
//     was executed, not how often.
//
// A counter has 32 bits and wraps around without notice. In mode count, goroutines that
// execute the same block lose counts to each other. In mode atomic they do not.
//
// # Names
//
// Functions get the names of the runtime. The files lack two parts of them, which need
// the source: the receiver of a method of a generic type, without which
// "(*List[...]).Push" is called "Push", and type parameters, without which "Map[...]" is
// called "Map". A generic function has the counts of all its instances. Function
// literals are numbered in the order of the source, as the compiler does (Go 1.21 and
// later). The compiler's numbers differ if it drops a literal in dead code, or if
// literals at package level are initialized in another order. The compiler names an
// inlined copy of a literal after its new place. Such a copy counts with the literal.
// Bodies of loops over functions, which the compiler calls "F-range1", count with F.
//
// Input may be hostile: the size of the files, at most [MaxFileSize], bounds all other
// sizes, and nothing panics.
package gocover
