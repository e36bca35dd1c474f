// Package receivers is a program of indirect calls whose targets are known: what
// the tests of receiver profiles take as ground truth. Each of its sites is one
// call in one function that is never inlined:
//
//	monomorphic   a call through an interface that only one type implements
//	bimorphic     two types, 3 to 1
//	promoted      two types that embed the same base, whose method they promote:
//	              the interface table has their wrappers, a stack has the base
//	generic       two instances of one generic type
//	closure       calls of function values, whose times go against their counts
//	deliver       four types in all and one from each caller
//	relayed       the same, where only the caller's caller tells
//	forwarded     the same, where only the caller's caller's caller tells
//
// Every target burns a number of rounds that its type fixes, which takes CPU time
// in proportion: at the same site, the share of the rounds is the share of the
// time. The order of the types is random, by a fixed seed, and each thousand turns
// of a worker have the same calls. A [Truth] counts both.
package receivers
