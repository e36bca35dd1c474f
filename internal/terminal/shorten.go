package terminal

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Ellipsis stands where text was cut or rows are missing.
const Ellipsis = "…"

// ShortenMethod cuts a method name to width runes. The directories of its package go
// first, then its middle, since both ends tell it apart: "net/http.(*conn).serve",
// "http.(*conn).serve", "http.…n).serve".
func ShortenMethod(name string, width int) string {
	return ShortenMiddle(DropDirectories(name), width)
}

// DropDirectories removes the path in front of the package of a method. It leaves type
// arguments as they are.
func DropDirectories(name string) string {
	head, _, _ := strings.Cut(name, "[")
	indent := name[:len(name)-len(strings.TrimLeft(name, contextIndent))]
	if slash := strings.LastIndexByte(head, '/'); slash >= 0 {
		return indent + name[slash+1:]
	}
	return name
}

// contextIndent has the runes that may stand in front of a method in a table: the
// indentation of a caller or callee.
const contextIndent = " ←→"

// ShortenMiddle cuts s to width runes. It keeps both ends, more of the second one.
func ShortenMiddle(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width {
		return s
	}
	if width <= 0 {
		return ""
	}
	head := (width - 1) * 2 / 5
	tail := width - 1 - head
	return string(runes[:head]) + Ellipsis + string(runes[len(runes)-tail:])
}

// ShortenLocation cuts "dir/dir/file.go:12" to width runes: directories go from the left,
// then the middle of the file's own name.
func ShortenLocation(location string, width int) string {
	for utf8.RuneCountInString(location) > width {
		slash := strings.IndexByte(location, '/')
		if slash < 0 {
			return ShortenMiddle(location, width)
		}
		location = location[slash+1:]
	}
	return location
}

// shortenEnd cuts s to width runes.
func shortenEnd(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width || width < 1 {
		return s
	}
	return string(runes[:width-1]) + Ellipsis
}

// OrList prints "a, b or c".
func OrList[W any](words []W) string {
	var list strings.Builder
	for i, word := range words {
		switch i {
		case 0:
		case len(words) - 1:
			list.WriteString(" or ")
		default:
			list.WriteString(", ")
		}
		fmt.Fprint(&list, word)
	}
	return list.String()
}

// ListNames joins the first few names.
func ListNames(names []string) string {
	const most = 5
	list := Printable(strings.Join(names[:min(len(names), most)], ", "))
	if len(names) <= most {
		return list
	}
	return fmt.Sprintf("%s and %d more", list, len(names)-most)
}
