// Package onefile makes a page that has its profiles inside: it opens from a disk, without a network or a server.
//
//  1. The answers of the questions about the profiles are asked as the commands ask them.
//  2. Columns of frames are packed: what follows from other columns is left out.
//  3. The data is compressed, and put into the page beside the script and the style of package web.
//  4. A policy in the page permits these by their hashes, and nothing else.
package onefile

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/klauspost/compress/gzip"

	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/web"
)

// finest is the width of a graph that leaves out nothing but what is beyond the bound of frames.
const finest = 1 << 20

// Options say what is in the page.
type Options struct {
	Nodes uint // frames at most: narrow ones are summed up. 0: 8,192
}

// Write writes the page of a profile and, if base is not nil, of its difference from base.
func Write(w io.Writer, p, base *view.Profile, o Options) error {
	d, err := dataOf(p, base, o)
	if err != nil {
		return err
	}
	packed, err := d.pack()
	if err != nil {
		return err
	}
	script, err := file("file-*.js")
	if err != nil {
		return err
	}
	style, err := file("app-*.css")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, page, policy(script, style), html.EscapeString(terminal.Printable(filepath.Base(p.Path))), style, packed, script)
	return err
}

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="%s">
<meta name="viewport" content="width=device-width">
<title>ccmapd %s</title>
<link rel="icon" href="data:,">
<style>%s</style>
</head>
<body>
<noscript>This page needs JavaScript.</noscript>
<script type="text/plain" id="data">%s</script>
<script>%s</script>
</body>
</html>
`

func policy(script, style []byte) string {
	return "default-src 'none'; script-src " + hash(script) + "; style-src " + hash(style) +
		"; img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// file returns the one file of the pages whose name matches.
func file(pattern string) ([]byte, error) {
	files := web.Files()
	names, err := fs.Glob(files, pattern)
	if err != nil {
		return nil, err
	}
	if len(names) != 1 {
		return nil, fmt.Errorf("find %s in the pages: there are %d", pattern, len(names))
	}
	return fs.ReadFile(files, names[0])
}

// data is what the script of the page reads (web/src/local.ts).
type data struct {
	Profiles []any    `json:"profiles"` // the base first
	Names    []string `json:"names"`
	Frames   packed   `json:"frames"`
	Changes  []change `json:"changes"`
	Overlap  any      `json:"overlap,omitempty"`
	Diff     any      `json:"diff,omitempty"`

	Receivers any      `json:"receivers"` // of the last profile
	Notes     []string `json:"notes"`
}

func dataOf(p, base *view.Profile, o Options) (*data, error) {
	sites, err := ask(receivers, p)
	if err != nil {
		return nil, err
	}
	wide := view.FlameOptions{Width: finest, Frames: o.Nodes}
	if base == nil {
		v, err := view.NewFlame(p, wide)
		if err != nil {
			return nil, err
		}
		d := &data{Profiles: []any{p.JSON()}, Receivers: sites}
		return d, d.take(v.JSON())
	}
	v, err := view.NewFlameDiff(base, p, wide)
	if err != nil {
		return nil, err
	}
	overlap, err := ask("overlap", base, p)
	if err != nil {
		return nil, err
	}
	diff, err := ask("diff", base, p)
	if err != nil {
		return nil, err
	}
	d := &data{Profiles: []any{base.JSON(), p.JSON()}, Overlap: overlap, Diff: diff, Receivers: sites}
	return d, d.take(v.JSON())
}

// receivers is the question whose list is as long as in pages that are served.
const (
	receivers = "receivers"
	mostSites = 100
)

// ask returns the JSON that the command of a question prints.
func ask(name string, profiles ...*view.Profile) (any, error) {
	q, _ := view.QuestionNamed(name)
	form := q.New()
	for _, p := range form.Params {
		if n, ok := p.Value.(*uint); ok && name == receivers && p.Name == "limit" {
			*n = mostSites
		}
	}
	v, err := form.Answer(view.About{Profiles: profiles})
	if err != nil {
		return nil, err
	}
	return v.JSON(), nil
}

// pack returns the data as gzip in base64.
func (d *data) pack() ([]byte, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode page: %w", err)
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, b.Bytes()), nil
}
