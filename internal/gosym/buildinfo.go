package gosym

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"
	"time"
)

// Build information begins with 32 bytes, aligned to 16. Bit 1 of the 16th is set since Go 1.18: then the Go version
// follows them, after its length, and then in the same way what is known of modules and of the build, between marks of
// 16 bytes each (package debug/buildinfo).
const (
	buildInfoFlags   = 15
	buildInfoInline  = 1 << 1
	buildInfoVersion = 32
	buildInfoMark    = 16
	longestVersion   = 256     // bytes
	maxBuildInfo     = 1 << 20 // bytes that are searched for it; it comes first
)

var buildInfoMagic = []byte("\xff Go buildinf:")

// commitLine begins the line that says when the source was committed (package runtime/debug).
const commitLine = "build\tvcs.time="

// built returns the Go version that an image was built with, "" if it is not known, and when its source was committed,
// zero if that is not known.
func (im *image) built(b *budget) (version string, commit time.Time) {
	if im.file == nil {
		return "", commit
	}
	off, size := im.file.buildInfo()
	data, err := readFile(b, im.file.r, off, min(size, maxBuildInfo))
	if err != nil {
		return "", commit
	}
	return parseBuildInfo(data)
}

// parseBuildInfo reads the build information in the data of a program.
func parseBuildInfo(data []byte) (version string, commit time.Time) {
	i := bytes.Index(data, buildInfoMagic)
	if i < 0 || len(data)-i < buildInfoVersion || data[i+buildInfoFlags]&buildInfoInline == 0 {
		return "", commit
	}
	version, rest, ok := cutSized(data[i+buildInfoVersion:])
	if !ok || len(version) > longestVersion {
		return "", commit
	}
	modules, _, _ := cutSized(rest)
	if len(modules) <= 2*buildInfoMark {
		return version, commit
	}
	for line := range strings.Lines(modules[buildInfoMark : len(modules)-buildInfoMark]) {
		if text, found := strings.CutPrefix(line, commitLine); found {
			commit, _ = time.Parse(time.RFC3339, strings.TrimSpace(text)) // zero: not known
		}
	}
	return version, commit.UTC()
}

// cutSized cuts off a text that follows its length.
func cutSized(data []byte) (text string, rest []byte, ok bool) {
	n, used := binary.Uvarint(data)
	if used <= 0 || n > uint64(len(data)-used) {
		return "", nil, false
	}
	return string(data[used:][:n]), data[used:][n:], true
}

// buildInfo returns the part of a file that has the build information: its section
// or, in a file without sections, the beginning of the data.
func (f *elfFile) buildInfo() (off, size uint64) {
	if s := f.section(".go.buildinfo"); s != nil {
		return s.off, s.size
	}
	for _, s := range f.segments {
		if s.typ == elf.PT_LOAD && s.flags&(elf.PF_X|elf.PF_W) == elf.PF_W {
			return s.off, s.fileSize
		}
	}
	return 0, 0
}
