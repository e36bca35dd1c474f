// Package jfr reads recordings of the JDK's Flight Recorder, and those that async-profiler
// writes in the same format.
//
//		file ─▶ Reader ─▶ chunk ─▶ metadata ─▶ types, fields
//		                    │  └▶ checkpoints ─▶ constants: classes, methods, stacks, threads
//		                    └▶ events ─▶ Object ─▶ Sample: thread, stack, weight
//
//	 1. A recording is a sequence of chunks, and each chunk is complete in itself. Its
//	    metadata describes the fields of its events. Classes, methods and stacks are
//	    constants: events refer to them by a key, which means nothing in another chunk.
//	 2. [Reader.Next] reads the next chunk of a file. [NewChunk] and [Chunk.Add] read a chunk
//	    that still grows, in pieces of whole events: constants come with or before the first
//	    event that refers to them.
//	 3. [Chunk.Events] walks all events. An [Object] finds fields by their names, in the chunk's
//	    own description: so events and fields that this package does not know do no harm, nor do
//	    those that a version of the JDK does not have.
//	 4. [Chunk.Samples] picks the events that count something, with their stacks.
//
// Nothing that a file says is believed. Each read is bounded by the bytes that are there, each
// allocation is taken from the caller's budget first, and reading takes time in proportion to
// the bytes: see types.resolve for the one way around that. An Object whose bytes are wrong
// has zeros for fields, and [Chunk.Corrupt] counts it.
//
// One goroutine at a time may use a Reader and its chunks.
//
// The format is that of OpenJDK 17 to 25 (src/hotspot/share/jfr/recorder, src/jdk.jfr), chunk
// version 2.
package jfr
