// Package web has the pages that a browser shows: flame graphs, tables and comparisons of profiles.
//
// The pages hold no figure. In a browser their script asks the routes below /v1 (internal/api); a single file has the
// answers inside it, and a script of its own ('ccmapd html'). The sources are in src/, and what a browser gets is in dist/: to write it anew,
//
//	go generate ./web
package web

import (
	"embed"
	"io/fs"
)

//go:generate go -C internal run ./bundle

// Policy is the Content-Security-Policy of the pages: their own files, and nothing else.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

//go:embed dist
var dist embed.FS

// Files returns the files of the pages: index.html, which all addresses of pages have, and the files that it names by
// absolute addresses: app-HASH.js, app-HASH.css. A name with a hash is of its content, so it never changes. A single
// file has file-HASH.js inside. LICENSES is for people.
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the name is valid
	}
	return files
}
