// Package export writes maps to files and restores maps from files.
//
//		snapshot ─▶ canonical ─▶ writer of a format ─▶ gzip, zstd ─▶ temporary file ─▶ rename
//		map ◀─ builder ◀─ reader of a format ◀─ sniff ◀─ size limit ◀─ gunzip, unzstd ◀─ file
//		sum of maps ◀─ Part ◀─ reader of pprof ◀───┘
//
//	 1. [Write] puts a snapshot into canonical order: methods by name and
//	    signature, nodes in preorder, siblings by offset and method. Two maps that
//	    are equal give equal bytes, in any order of their samples.
//	 2. [WriteFile] takes format and compression from the name, and replaces the
//	    file as a whole or leaves it as it was.
//	 3. [Read] undoes compression and tells the formats apart by content alone. It
//	    believes nothing: bytes, methods, nodes, points and depth are bounded by
//	    [ReadOptions], and each map is checked before it is handed out.
//	 4. [ReadPart] and [Sum.Add] do the same for files that are added up: many
//	    goroutines read, and one adds their results to the sum.
//
// A format keeps the parts of a profile that [Format.Holds] names. docs/formats.md has them
// as a table, and the schemas.
//
// "Counted" leaves out nodes that count nothing, neither themselves nor below: such files
// hold stacks. "Frames": pruned nodes stand in the stacks as [ccmap.PrunedName], but their
// counts by edge and method are lost, their activations too. So methods and edges are lower
// bounds as well. "Calls of bursts" are points of [ccmap.OriginBurst] and [ccmap.PointCall],
// restored exactly; sampled and imported points are lost. "Where on top": methods keep their
// Receiver if a sample was taken in them, or a burst call has reached them.
//
// Everything here may be called from any goroutine.
package export
