// Package export writes maps to files and restores maps from files.
//
//		snapshot ─▶ canonical ─▶ writer of a format ─▶ gzip, zstd ─▶ temporary file ─▶ rename
//		map ◀─ builder ◀─ reader of a format ◀─ sniff ◀─ size limit ◀─ gunzip, unzstd ◀─ file
//		sum of maps ◀─ Part ◀─ reader of pprof ◀───┘
//
//	 1. [Write] puts a snapshot into canonical order: methods by name and
//	    signature, nodes in preorder, siblings by offset and method. Two maps that
//	    are equal give equal bytes, whatever order their samples came in.
//	 2. [WriteFile] takes format and compression from the name, and replaces the
//	    file as a whole or leaves it as it was.
//	 3. [Read] undoes compression and tells the formats apart by content alone. It
//	    believes nothing: bytes, methods, nodes, points and depth are bounded by
//	    [ReadOptions], and each map is checked before it is handed out.
//
//	 4. [ReadPart] and [Part.AddTo] do the same for files that are to be added up:
//	    many goroutines read, and one adds what they have read to the sum.
//
// What each format keeps:
//
//	            contexts  samples  time  activations  window  pruned  points      method fields     Meta
//	XML, JSON   all       yes      yes   yes          yes     all     all         all               all
//	Pprof       counted   yes      yes   yes          yes     frames  burst calls all, Receiver top all
//	Folded      counted   no       yes   no           no      frames  none        Name, Signature   none
//
// "Counted" leaves out nodes that have no count of their own and none below
// them: such files hold stacks, and nothing was counted there. "Frames": what
// was pruned stands in the stacks as [ccmap.PrunedName], but what it had counted
// by edge and method is lost, its activations too: methods and edges are lower
// bounds as well. "Burst calls" are points of [ccmap.OriginBurst] and
// [ccmap.PointCall], restored exactly; sampled and imported ones are lost. "Top":
// Receiver is kept of methods that a sample was taken in or a burst call has
// reached. docs/formats.md has the schemas.
//
// Everything here may be called from any goroutine.
package export
