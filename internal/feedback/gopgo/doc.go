// Package gopgo is about Go's profile-guided optimization: it makes of a profile the file that
// 'go build -pgo' reads, and asks the compiler what it decides with it.
//
//	profile ─▶ Edges ─▶ Minimize ─▶ Minimal.Map ─▶ default.pgo ─▶ go build
//	             └────▶ Whole                          └────▶ Decisions
//
// Whether a profile still fits a newer program, by its binary or its source, none of which is run:
//
//	profile ─▶ CallsOf ─▶ Check ─▶ Checked ─▶ Calls.Heal
//	Binary | Source ────────┘
//
// What the compiler reads, in Go 1.26 and 1.27 (cmd/internal/pgo, internal/profile/graph.go,
// cmd/compile/internal/{inline,devirtualize}):
//
//   - Edges alone: caller, callee, and the line of the call from the caller's first. Self time is not
//     used.
//   - The heaviest edges up to 99 % of the sum of all are hot: their callees may be inlined up to a
//     cost of 2000 in place of 80, at all hot lines.
//   - At an interface call or a call of a function value, the heaviest callee of the line that suits
//     the call's type is called directly where it is the one, however light the edge is.
//
// Nothing here keeps state, and all functions may be called from any goroutine.
package gopgo
