package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// mostWords bounds what all pages say together: the words of their sentences and lists. Blocks of code and output,
// tables, and the parts that programs write do not count.
const mostWords = 45_000

var (
	writtenParts = regexp.MustCompile(`(?s)<!-- [^>]* begin -->.*?<!-- [^>]* end -->`)
	fencedBlocks = regexp.MustCompile("(?ms)^```.*?^```$")
	otherLines   = regexp.MustCompile(`(?m)^(\||    ).*$`) // of tables, and of indented code
)

// TestWords: a page that needs more words than this takes them from what other pages say already.
func TestWords(t *testing.T) {
	t.Parallel()
	sum := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		n := words(string(text))
		t.Logf("%5d %s", n, page)
		sum += n
	}
	if sum > mostWords {
		t.Errorf("the pages have %d words, at most %d: what do they say twice?", sum, mostWords)
	}
}

// words counts the words of a page that have a letter or a digit.
func words(page string) (n int) {
	for _, part := range []*regexp.Regexp{writtenParts, fencedBlocks, otherLines} {
		page = part.ReplaceAllString(page, "")
	}
	for _, word := range strings.Fields(page) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// TestCountsWords holds what counts as a word.
func TestCountsWords(t *testing.T) {
	t.Parallel()
	const page = "# Two words\n\n- one – `two three`, [four](of.md)\n\n    not this\n\n| nor this |\n\n```sh\nnor this\n```\n\n" +
		"<!-- docs, TestWords: begin -->\nnor this\n<!-- docs, TestWords: end -->\nlast\n"
	if n := words(page); n != 7 {
		t.Errorf("%d words, want 7", n)
	}
}
