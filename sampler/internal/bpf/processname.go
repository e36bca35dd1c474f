package bpf

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ccmapd/ccmapd/ccmap"
)

// mostProcessNames bounds the names of processes in a map: a process may take any name, as often as it likes.
const mostProcessNames = 1024

// otherProcesses is the name of all processes beyond mostProcessNames.
const otherProcesses = "…"

// processNames has the frames of processes, by the bytes of their names. The whole host's goroutine and the
// one that opens its programs have one each.
type processNames map[string]ccmap.Frame

// frame returns the frame of a record's process.
func (n processNames) frame(r *record, names *ccmap.Names) ccmap.Frame {
	raw := rawName(r)
	f, known := n[string(raw)]
	if known {
		return f
	}
	name := printableName(raw)
	if len(n) >= mostProcessNames {
		name = otherProcesses
	}
	f = ccmap.Frame{Method: names.Intern(ccmap.ProcessMethod(name)), Offset: ccmap.NoOffset}
	if len(n) < mostProcessNames {
		n[string(raw)] = f
	}
	return f
}

// rawName returns the name of a record's process up to its zero byte. The name of a kernel's thread ends
// before its number: there are hundreds of kworker/3:1.
func rawName(r *record) []byte {
	raw := r.Name[:]
	if end := bytes.IndexByte(raw, 0); end >= 0 {
		raw = raw[:end]
	}
	if r.Flags&kernelThread != 0 {
		raw, _, _ = bytes.Cut(raw, []byte("/"))
	}
	return raw
}

// printableName returns a name with U+FFFD in place of what is not printable, and of the bracket that ends
// the frame.
func printableName(raw []byte) string {
	name := strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) && r != ']' && r != ';' {
			return r
		}
		return utf8.RuneError
	}, string(raw))
	if strings.TrimSpace(name) == "" {
		return "without a name"
	}
	return name
}
