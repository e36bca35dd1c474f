package main

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// ranges of drawn characters: scripts with and without letter case, digits, signs, and
// characters that need two units in UTF-16.
var ranges = [][2]rune{{' ', '~'}, {'À', 'ÿ'}, {'Α', 'ω'}, {'А', 'я'}, {'٠', '٩'}, {'∀', '⋿'}, {'一', '龥'}, {'𐐀', '𐑏'}}

func drawChar(r *rand.Rand) rune {
	from := ranges[r.IntN(len(ranges))]
	return from[0] + r.Int32N(from[1]-from[0]+1)
}

// checkChars draws a text and puts each character through all conversions.
func checkChars(r *rand.Rand) error {
	text := make([]rune, 48)
	for i := range text {
		text[i] = drawChar(r)
	}
	for i, c := range text {
		next := text[(i+1)%len(text)]
		err := first(
			checkEncodings(c),
			checkQuotes(c),
			checkCase(c),
			checkClass(c),
			checkBoxes(char(c), char(next), cmp.Compare(c, next)),
		)
		if err != nil {
			return fmt.Errorf("%q: %w", c, err)
		}
	}
	return checkText(string(text))
}

// checkEncodings converts to UTF-8 and UTF-16 and back.
func checkEncodings(c rune) error {
	encoded := utf8.AppendRune(nil, c)
	back, size := utf8.DecodeRune(encoded)
	units := utf16.Encode([]rune{c})
	return first(
		same("UTF-8", back, c),
		same("length in UTF-8", size, utf8.RuneLen(c)),
		same("UTF-16", utf16.Decode(units)[0], c),
		same("length in UTF-16", len(units), utf16.RuneLen(c)),
	)
}

// checkQuotes writes the character as Go source does, and reads the result.
func checkQuotes(c rune) error {
	for _, quoted := range []string{strconv.QuoteRune(c), strconv.QuoteRuneToASCII(c), fmt.Sprintf("%+q", c)} {
		text, err := strconv.Unquote(quoted)
		if err := first(err, same("unquote "+quoted, text, string(c))); err != nil {
			return err
		}
	}
	return nil
}

// checkCase compares the two ways to change a letter's case.
func checkCase(c rune) error {
	upper, lower := unicode.ToUpper(c), unicode.ToLower(c)
	return first(
		same("upper", strings.ToUpper(string(c)), string(upper)),
		same("lower", strings.ToLower(string(c)), string(lower)),
		same("fold", strings.EqualFold(string(upper), string(lower)), true),
	)
}

// checkClass finds the character in at most one of the classes.
func checkClass(c rune) error {
	classes := 0
	for _, in := range []func(rune) bool{unicode.IsLetter, unicode.IsDigit, unicode.IsPunct, unicode.IsSymbol, unicode.IsSpace} {
		if in(c) {
			classes++
		}
	}
	return same("in one class at most", classes <= 1, true)
}

// checkText takes a whole text apart and puts it together.
func checkText(text string) error {
	words := strings.FieldsFunc(text, func(c rune) bool { return !unicode.IsLetter(c) })
	letters := strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) {
			return c
		}
		return -1
	}, text)
	quoted := strconv.Quote(text)
	back, err := strconv.Unquote(quoted)
	return first(err,
		same("letters", strings.Join(words, ""), letters),
		same("text", back, text),
		same("reversed twice", reverse(reverse(text)), text))
}

func reverse(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		c, size := utf8.DecodeLastRuneInString(text)
		b.WriteRune(c)
		text = text[:len(text)-size]
	}
	return b.String()
}

// char is a boxed character.
type char rune

func (c char) String() string { return string(rune(c)) }

func (c char) Equals(other any) bool {
	o, ok := other.(char)
	return ok && o == c
}

func (c char) CompareTo(other any) (int, error) {
	o, ok := other.(char)
	if !ok {
		return 0, fmt.Errorf("compare %T with %T: %w", c, other, errType)
	}
	return cmp.Compare(c, o), nil
}

func (c char) Hash() uint64 {
	h := fnv.New64a()
	h.Write([]byte(c.String()))
	return h.Sum64()
}
