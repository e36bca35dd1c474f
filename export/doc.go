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
//	 4. [ReadPart] and [Part.AddTo] do the same for files that are added up: many
//	    goroutines read, and one adds their results to the sum.
//
// The formats keep:
//
//	            contexts  samples  time  activations  window  pruned  points      method fields     Meta
//	XML, JSON   all       yes      yes   yes          yes     all     all         all               all
//	Pprof       counted   yes      yes   yes          yes     frames  burst calls all, Receiver top all
//	Folded      counted   no       yes   no           no      frames  none        Name, Signature   none
//
// "Counted" leaves out nodes that count nothing, neither themselves nor below: such files
// hold stacks. "Frames": pruned nodes stand in the stacks as [ccmap.PrunedName], but their
// counts by edge and method are lost, their activations too. So methods and edges are lower
// bounds as well. "Burst calls" are points of [ccmap.OriginBurst] and [ccmap.PointCall],
// restored exactly; sampled and imported points are lost. "Top": methods keep their Receiver
// if a sample was taken in them, or a burst call has reached them. formatTable says the same
// to the code, and docs/formats.md has the schemas.
//
// Everything here may be called from any goroutine.
package export
