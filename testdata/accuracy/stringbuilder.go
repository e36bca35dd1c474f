package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// builder is a text that grows and changes in place, like .NET's StringBuilder.
type builder struct{ text []byte }

func (b *builder) String() string { return string(b.text) }
func (b *builder) Len() int       { return len(b.text) }

func (b *builder) Write(p []byte) (int, error) {
	b.text = append(b.text, p...)
	return len(p), nil
}

// Append adds a value of any of the kinds that StringBuilder.Append knows.
func (b *builder) Append(v any) {
	switch v := v.(type) {
	case string:
		b.text = append(b.text, v...)
	case rune:
		b.text = append(b.text, string(v)...)
	case bool:
		b.text = strconv.AppendBool(b.text, v)
	case int:
		b.text = strconv.AppendInt(b.text, int64(v), 10)
	case float64:
		b.text = strconv.AppendFloat(b.text, v, 'g', -1, 64)
	case fmt.Stringer:
		b.Append(v.String())
	default:
		fmt.Fprint(b, v)
	}
}

func (b *builder) Insert(at int, text string) { b.text = slices.Insert(b.text, at, []byte(text)...) }
func (b *builder) Remove(from, to int)        { b.text = slices.Delete(b.text, from, to) }
func (b *builder) Replace(old, new string) {
	b.text = bytes.ReplaceAll(b.text, []byte(old), []byte(new))
}

// edit is a change to a text, made twice: to a builder and to a plain string.
type edit interface {
	apply(b *builder)
	model(text string) string
}

type (
	appended struct{ value any }
	printed  struct {
		name  string
		value float64
	}
	inserted struct {
		at   float64 // part of the text before it
		text string
	}
	removed  struct{ from, part float64 } // of the text
	replaced struct{ old, new string }
)

// position returns the end of a part of a text.
func position(part float64, length int) int { return int(part * float64(length)) }

func (e appended) apply(b *builder)         { b.Append(e.value) }
func (e appended) model(text string) string { return text + fmt.Sprint(e.value) }

const line = "%-8s|%12.4f|%5d\n"

func (e printed) apply(b *builder) { fmt.Fprintf(b, line, e.name, e.value, b.Len()) }
func (e printed) model(text string) string {
	return text + fmt.Sprintf(line, e.name, e.value, len(text))
}

func (e inserted) apply(b *builder) { b.Insert(position(e.at, b.Len()), e.text) }
func (e inserted) model(text string) string {
	at := position(e.at, len(text))
	return text[:at] + e.text + text[at:]
}

func (e removed) ends(length int) (from, to int) {
	from = position(e.from, length)
	return from, from + position(e.part, length-from)
}

func (e removed) apply(b *builder) { b.Remove(e.ends(b.Len())) }
func (e removed) model(text string) string {
	from, to := e.ends(len(text))
	return text[:from] + text[to:]
}

func (e replaced) apply(b *builder)         { b.Replace(e.old, e.new) }
func (e replaced) model(text string) string { return strings.ReplaceAll(text, e.old, e.new) }

var words = strings.Fields("context call site caller callee method map sample thread queue weight interval")

func drawEdit(r *rand.Rand) edit {
	word := words[r.IntN(len(words))]
	switch r.IntN(12) {
	case 0:
		return appended{word}
	case 1:
		return appended{r.IntN(1e9)}
	case 2:
		return appended{r.NormFloat64()}
	case 3:
		return appended{r.IntN(2) == 0}
	case 4:
		return appended{char(drawChar(r))}
	case 5:
		return appended{[]string{word, word}}
	case 6, 7:
		return printed{word, 100 * r.Float64()}
	case 8, 9:
		return inserted{r.Float64(), word}
	case 10:
		return removed{r.Float64(), r.Float64() / 4}
	}
	return replaced{word[:2], strings.ToUpper(word)}
}

// checkStringBuilder edits a text, and compares it with the model now and then.
func checkStringBuilder(r *rand.Rand) error {
	b, text := new(builder), ""
	for i := range 48 {
		e := drawEdit(r)
		e.apply(b)
		text = e.model(text)
		if i%8 == 7 {
			if err := checkTexts(b, text); err != nil {
				return fmt.Errorf("after %T %v: %w", e, e, err)
			}
		}
	}
	return checkLines(text)
}

func checkTexts(b *builder, text string) error {
	return first(
		same("text", b.String(), text),
		same("length", b.Len(), len(text)),
		same("compare", bytes.Compare(b.text, []byte(text)), 0),
		same("hash", hash(b.String()), hash(text)),
	)
}

// hash is similar to .NET's hash of strings.
func hash(text string) (h uint32) {
	for i := range len(text) {
		h = 31*h + uint32(text[i])
	}
	return h
}

// checkLines takes a text apart and joins it in three ways.
func checkLines(text string) error {
	lines := strings.Split(text, "\n")
	var joined strings.Builder
	var buffer bytes.Buffer
	for i, l := range lines {
		if i > 0 {
			joined.WriteByte('\n')
			buffer.WriteRune('\n')
		}
		joined.WriteString(l)
		fmt.Fprintf(&buffer, "%s", l)
	}
	return first(
		same("joined", strings.Join(lines, "\n"), text),
		same("built", joined.String(), text),
		same("buffered", buffer.String(), text),
	)
}
