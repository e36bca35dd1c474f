package gosym

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
)

// headerStart is the beginning of a pclntab of Go 1.16 to 1.27, without its
// first byte, which tells the version: magic, two zeros, quantum, pointer size
// 8.
var headerStart = []byte{0xff, 0xff, 0xff, 0, 0, pcQuantum, 8}

// scanForModuledata looks through the memory of an image for the header of a
// pclntab, and then for a moduledata that points to it. It is the way for
// stripped programs of Go 1.18 to 1.25.
func scanForModuledata(l *load, im *image) (uint64, error) {
	result := ErrNotGo
	for header, err := range pclntabs(l, im) {
		if err != nil {
			result = err
			continue
		}
		for addr := range pointers(l, im, header) {
			if _, err := readModuledata(l, addr); err == nil {
				return addr, nil
			}
		}
		result = fmt.Errorf("program counter table at %#x without a module: %w", header, ErrNotReady)
	}
	if l.spent != nil {
		return 0, fmt.Errorf("look for a program counter table: %w", l.spent)
	}
	return 0, result
}

// pclntabs yields where in the image's memory a pclntab seems to begin, or what
// keeps one from being supported.
func pclntabs(l *load, im *image) iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		for _, in := range im.maps {
			for base, b := range windows(l, in, pcHeaderSize) {
				for at := range headers(b) {
					if l.work(callCost) != nil {
						return
					}
					_, err := parsePCHeader(b[at:])
					if err != nil && !errors.Is(err, ErrUnsupported) {
						continue
					}
					if !yield(base+uint64(at), err) {
						return
					}
				}
			}
		}
	}
}

// headers yields where in b the header of a pclntab could begin: it is aligned
// to 8 bytes at least.
func headers(b []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		for from := 1; from < len(b); {
			i := bytes.Index(b[from:], headerStart)
			if i < 0 {
				return
			}
			at := from + i - 1
			if at%8 == 0 && at+pcHeaderSize <= len(b) && !yield(at) {
				return
			}
			from = at + 2
		}
	}
}

// pointers yields where in the image's writable memory a word is.
func pointers(l *load, im *image, word uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, in := range im.maps {
			if l.work(1) != nil {
				return
			}
			if !in.write {
				continue
			}
			for base, b := range windows(l, in, 0) {
				for at := 0; at+8 <= len(b); at += 8 {
					if binary.LittleEndian.Uint64(b[at:]) == word && !yield(base+uint64(at)) {
						return
					}
				}
			}
		}
	}
}

// window is how much of a mapping is looked through at once, bytes.
const window = 1 << 18

// windows yields the readable memory of a mapping piece by piece, each
// overlapping the next. A piece is valid until the next.
func windows(l *load, in mapping, overlap uint64) iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		if !in.read {
			return
		}
		size := in.end - in.start
		buf := make([]byte, min(window+overlap, size))
		for at := uint64(0); at < size; at += window {
			b := buf[:min(uint64(len(buf)), size-at)]
			if l.readAt(b, in.start+at) != nil || !yield(in.start+at, b) {
				return
			}
		}
	}
}
