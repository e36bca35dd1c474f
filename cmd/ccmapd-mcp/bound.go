package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// bounded returns a value as JSON that an agent can take: lists of a few rows, names of a few characters that a
// terminal and a reader see as they are, few bytes in all.
func bounded(v any) []byte {
	plain, err := decoded(v)
	if err != nil {
		plain = fmt.Sprintf("cannot print the answer: %v", err)
	}
	var text []byte
	for rows := mostRows; ; rows /= 2 {
		text, err = json.Marshal(cut(plain, rows, mostDepth))
		if err != nil {
			panic(err) // objects, lists, texts and numbers
		}
		if len(text) <= mostAnswer || rows == 0 {
			break
		}
	}
	if len(text) > mostAnswer {
		return []byte(`{"error":"the answer is too large: ask about one method"}`)
	}
	return text
}

// decoded returns a value as maps, lists, texts and numbers.
func decoded(v any) (plain any, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	err = decoder.Decode(&plain)
	return plain, err
}

// cut returns a value with at most so many rows in each list. The object that has the list says how many more there
// are.
func cut(v any, rows, depth int) any {
	if depth == 0 {
		return "…"
	}
	switch v := v.(type) {
	case string:
		return clean(v)
	case []any:
		return cutList(v, rows, depth)
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out[clean(key)] = cut(v[key], rows, depth-1)
			if list, ok := v[key].([]any); ok && len(list) > rows {
				out[clean(key)+"_more"] = len(list) - rows
			}
		}
		return out
	}
	return v
}

func cutList(v []any, rows, depth int) []any {
	out := make([]any, 0, min(len(v), rows))
	for _, row := range v[:min(len(v), rows)] {
		out = append(out, cut(row, rows, depth-1))
	}
	return out
}

// clean escapes what no reader would see, or would see elsewhere, and cuts the text.
func clean(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n >= mostText {
			b.WriteString("…")
			break
		}
		n++
		if unicode.IsGraphic(r) && !unicode.Is(unicode.Co, r) && (r == ' ' || !unicode.IsSpace(r)) {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, `\u{%x}`, r)
	}
	return b.String()
}
