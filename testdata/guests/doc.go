// Package guests gives WebAssembly modules to tests and benchmarks, and says of
// each what it does, so that there is a truth to hold a profile against.
//
//   - Small guests are written by hand, a page each, and committed with their
//     binaries: [Small].
//   - Built guests are Go and C programs of this folder, compiled by the
//     installed toolchains: [Go], [C].
//   - Fetched guests are programs that nobody here wrote, from the module proxy
//     and the npm registry, pinned by version and digest: [Fetch].
//
// Built and fetched guests are kept in a cache outside the repository, see [Dir].
package guests
