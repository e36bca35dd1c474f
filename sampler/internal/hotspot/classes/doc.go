// Package classes names the classes and methods of a running HotSpot JVM, by reading its
// memory from outside. The JVM does not take part, and nothing in it changes:
//
//  1. [New] looks up where the JVM keeps its fields, in the tables of package vmstructs.
//  2. [Table.Method] turns the address of a Method into names, bytecode and lines, and
//     [Table.Class] does so for the address of a Klass. Both keep what they found.
//  3. [Table.Walk] visits all classes by their loaders. Now and then [Table.Refresh]
//     drops the names of classes that the JVM has unloaded meanwhile.
//  4. [Table.Callee] tells which method a call in the bytecode names, and [Table.Find]
//     which method of a class such a name reaches.
//  5. [Table.Field] tells where objects of a class have a field.
//  6. [Table.Body] hashes the bytecode of a method as its class file has it.
//  7. [Table.Load] makes many of these cheap: it reads memory in whole pieces. [Table.Check]
//     then tells whether what was read is still true.
//
// The JVM unloads classes, and uses their addresses again. JFR's number of a class tells it
// from all others that the JVM ever had.
//
// The memory is read while the JVM writes it, and a hostile process may have written
// anything. So each address is checked before a read, each length is bounded, and no
// chain is followed in a circle. An address that does not lead to a method gives an error
// and never a panic. Names may hold any character: clean them before they are printed.
//
// A Table belongs to one goroutine at a time. Classes and methods that it returned never
// change, and may be read by all.
//
// The layouts were verified on OpenJDK 17.0.15 and Temurin 25.0.3 (linux/amd64). The
// encodings are those of their sources: oops/constMethod.hpp, oops/compressedLineNumber*,
// code/compressedStream.cpp (17), utilities/unsigned5.hpp (25), oops/cpCache.hpp,
// oops/fieldInfo.hpp, interpreter/bytecodes.hpp, interpreter/rewriter.cpp, oops/resolved*Entry.hpp (25).
package classes
