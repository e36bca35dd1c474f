// Package report writes the results of campaigns into Markdown files: tables between two
// comments, so that text around them stays.
package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Portion is a campaign's part of a file, between two comments that name the campaign.
// Everything else is written by hand, or by another campaign, and stays.
type Portion string

// Begin returns the line above the portion.
func (p Portion) Begin() string { return fmt.Sprintf("<!-- %s: begin -->\n", p) }

// End returns the line below the portion.
func (p Portion) End() string { return fmt.Sprintf("<!-- %s: end -->\n", p) }

// Rows returns the rows of the portion's tables in a file, each as its cells. A missing
// file or portion has no rows.
func (p Portion) Rows(path string) ([][]string, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(text), p.Begin())
	body, _, _ := strings.Cut(rest, p.End())
	var rows [][]string
	ruled := false // the head is above the rule
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		switch row := strings.HasPrefix(line, "| ") && strings.HasSuffix(line, " |"); {
		case !row:
			ruled = false
		case strings.HasPrefix(line, "| ---"):
			ruled = true
		case ruled:
			rows = append(rows, strings.Split(line[2:len(line)-2], " | "))
		}
	}
	return rows, nil
}

// Rewrite replaces the portion in a file, or appends a new one.
func (p Portion) Rewrite(path, body string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(path, []byte(p.Replaced(string(old), body)), 0o644)
}

// Replaced returns the text with a new body of the portion.
func (p Portion) Replaced(text, body string) string {
	before, rest, found := strings.Cut(text, p.Begin())
	if !found {
		before = strings.TrimSuffix(before, "\n") + "\n\n"
	}
	_, after, _ := strings.Cut(rest, p.End())
	return before + p.Begin() + "\n" + body + "\n" + p.End() + after
}
