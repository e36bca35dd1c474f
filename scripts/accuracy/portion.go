package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// portion is what one campaign writes of the report, between two comments. All else
// is written by hand, or by another campaign, and stays.
type portion string

const (
	nativePortion portion = "native programs"
	guestPortion  portion = "guests"
)

func (p portion) begin() string { return fmt.Sprintf("<!-- scripts/accuracy, %s: begin -->\n", p) }
func (p portion) end() string   { return fmt.Sprintf("<!-- scripts/accuracy, %s: end -->\n", p) }

// rewrite replaces the portion in a file, or appends it where there is none.
func (p portion) rewrite(path, body string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(path, []byte(p.replaced(string(old), body)), 0o644)
}

// replaced returns the text with another body of the portion.
func (p portion) replaced(text, body string) string {
	before, rest, found := strings.Cut(text, p.begin())
	if !found {
		before = strings.TrimSuffix(before, "\n") + "\n\n"
	}
	_, after, _ := strings.Cut(rest, p.end())
	return before + p.begin() + "\n" + body + "\n" + p.end() + after
}
