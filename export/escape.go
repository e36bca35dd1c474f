package export

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// text is a string in a document. Every byte sequence can be held: a backslash
// is written \\, and characters that XML 1.0 has no place for or a terminal could
// obey, and bytes that are not UTF-8, byte by byte as \xHH. JSON holds the same
// text, so that the two convert into each other.
type text string

func (t text) MarshalText() ([]byte, error) {
	return []byte(escape(string(t), inDocument)), nil
}

func (t *text) UnmarshalText(b []byte) error {
	s, err := unescape(string(b))
	*t = text(s)
	return err
}

// inDocument reports whether a character stands in XML 1.0 (section 2.2, Char) and
// JSON as it is. It must be visible or a space, and not the backslash that we escape
// with.
func inDocument(r rune) bool {
	return unicode.IsGraphic(r) && r != '\\' || r == '\t' || r == '\n' || r == '\r'
}

const hexDigits = "0123456789abcdef"

// escape returns s with the characters that are not plain, and bytes that are
// not UTF-8, escaped.
func escape(s string, plain func(rune) bool) string {
	var b strings.Builder
	done := 0 // s[:done] is in b
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		valid := r != utf8.RuneError || size > 1
		if !valid || !plain(r) {
			b.WriteString(s[done:i])
			appendEscaped(&b, s[i:i+size])
			done = i + size
		}
		i += size
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// appendEscaped writes the bytes of one character.
func appendEscaped(b *strings.Builder, char string) {
	if char == `\` {
		b.WriteString(`\\`)
		return
	}
	for i := range len(char) {
		b.WriteString(`\x`)
		b.WriteByte(hexDigits[char[i]>>4])
		b.WriteByte(hexDigits[char[i]&15])
	}
}

var errEscape = errors.New(`bad escape: want \\ or \xHH`)

// unescape undoes escape, whatever was plain.
func unescape(s string) (string, error) {
	before, rest, escaped := strings.Cut(s, `\`)
	if !escaped {
		return s, nil
	}
	var b strings.Builder
	for ; escaped; before, rest, escaped = strings.Cut(rest, `\`) {
		b.WriteString(before)
		char, size, err := unescapeOne(rest)
		if err != nil {
			return "", err
		}
		b.WriteByte(char)
		rest = rest[size:]
	}
	b.WriteString(before)
	return b.String(), nil
}

// unescapeOne decodes what follows a backslash, and returns its length.
func unescapeOne(s string) (char byte, size int, err error) {
	if strings.HasPrefix(s, `\`) {
		return '\\', 1, nil
	}
	if len(s) < 3 || s[0] != 'x' {
		return 0, 0, errEscape
	}
	v, err := strconv.ParseUint(s[1:3], 16, 8)
	if err != nil {
		return 0, 0, errEscape
	}
	return byte(v), 3, nil
}
