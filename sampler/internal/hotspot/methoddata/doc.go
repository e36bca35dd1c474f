// Package methoddata reads the profiles that a HotSpot JVM keeps of its own code: its
// MethodData. The interpreter and the first compiler count calls by receiver, checks by
// type, branches and switches of each warm method, for the second compiler to read. They are
// read from outside, and the JVM does not take part:
//
//  1. [New] looks up where the JVM keeps them. Package classes names methods and types.
//  2. [Reader.Snapshot] walks all classes and reads the profiles of all warm methods, with
//     few calls. The first one finds out how long records are, see Reader.calibrate.
//  3. [Reader.Update] reads again the profiles of some methods, as of those with samples.
//  4. [Reader.Points] makes profile points of [ccmap.OriginVM] of them.
//
// [Reader.Follow] does all of that again and again.
//
// # What the counts say
//
// A profile is of a method, whoever calls it. When the second compiler has compiled the
// method, its code counts nothing: the counts are frozen, each inlined copy's at another
// moment. So they tell which types came, and hardly how often each comes now. A JVM keeps
// two types for each bytecode, unless TypeProfileWidth says otherwise; calls of others are
// counted together. A deoptimization starts the counting again.
//
// # Torn and stale data
//
// The JVM writes while it is read. The records of a method stay where they are for its
// life, and their counts grow. A profile is dropped if its method no longer leads to it
// after it was read, if its records make no sense, or if a class that it names is gone once all
// is read; [Stats] counts those. A hostile process may have written anything: all lengths are
// bounded, and one budget bounds the bytes and steps of a snapshot.
//
// A Reader belongs to one goroutine at a time.
//
// The layouts were verified on OpenJDK 17.0.15 and Temurin 25.0.3 (linux/amd64), from
// oops/methodData.hpp of JDK 17 and 25.
package methoddata
