package query

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/advice"
)

// Error is the error of a name that means no method, or several: Candidates has the names that are meant or like it.
type Error = advice.Error

// Methods is a set of methods of one name table. Its index is a ccmap.MethodID.
type Methods []bool

// Has reports whether a method is in the set.
func (s Methods) Has(id ccmap.MethodID) bool { return uint64(id) < uint64(len(s)) && s[id] }

// IDs returns the methods of the set, in the order of their ids.
func (s Methods) IDs() []ccmap.MethodID {
	var ids []ccmap.MethodID
	for id, in := range s {
		if in {
			ids = append(ids, ccmap.MethodID(id))
		}
	}
	return ids
}

// Names returns the different titles in the set, sorted. Methods of one name may have
// several signatures.
func (s Methods) Names(names *ccmap.Names) []string {
	var list []string
	for _, id := range s.IDs() {
		list = append(list, names.At(id).Title())
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Select returns the methods whose names or titles match: "[kernel]" is all time in the
// kernel, and "[kernel] read" the time in one system call.
func Select(names *ccmap.Names, match func(name string) bool) Methods {
	set := make(Methods, names.Len())
	for i := range set {
		m := names.At(ccmap.MethodID(i))
		title := m.Title()
		set[i] = match(m.Name) || title != m.Name && match(title)
	}
	return set
}

// Named returns the methods of one name, whatever their signatures. The text is the
// name, or an end of it that only one name has: "Server.handle" for
// "main.(*Server).handle". A Java method may be named with its descriptor or its parameters,
// which only methods with these have: "A.m(I)I", "A.m(int)". The error is that of a
// [Finder].
func Named(names *ccmap.Names, text string) (Methods, error) {
	name, err := resolve(names, text)
	if err == nil {
		return Select(names, func(s string) bool { return s == name }), nil
	}
	if set := overload(names, text); set != nil {
		return set, nil
	}
	return nil, err
}

// overload returns the methods of a name that have the descriptor or parameters behind it, nil if
// there are none.
func overload(names *ccmap.Names, text string) Methods {
	at := strings.LastIndexByte(text, '(')
	if at <= 0 {
		return nil
	}
	name, err := resolve(names, text[:at])
	if err != nil {
		return nil
	}
	set := make(Methods, names.Len())
	for id := range set {
		m := names.At(ccmap.MethodID(id))
		set[id] = m.Name == name && (m.Signature == text[at:] || m.Parameters() == text[at:])
	}
	if !slices.Contains(set, true) {
		return nil
	}
	return set
}

// Matching returns the methods that a regular expression matches anywhere in their
// names. The error is that of a [Finder] if there are none.
func Matching(names *ccmap.Names, re *regexp.Regexp) (Methods, error) {
	set := Select(names, re.MatchString)
	if !slices.Contains(set, true) {
		return nil, &Error{Code: advice.CodeNoMethod, Err: fmt.Errorf("no method matches %q", re)}
	}
	return set, nil
}

// resolve returns the one full name that text stands for. If several names end in it,
// the one that is written in the same way wins: "T.f" is main.T.f, and not
// main.(*T).f, the wrapper through which an interface calls it.
func resolve(names *ccmap.Names, text string) (string, error) {
	all := AllNames(names)
	if _, found := slices.BinarySearch(all, text); found {
		return text, nil
	}
	plain := plainName(text)
	var found, asWritten []string
	for _, name := range all {
		if hasNameSuffix(plainName(name), plain) {
			found = append(found, name)
		}
		if hasNameSuffix(name, text) {
			asWritten = append(asWritten, name)
		}
	}
	switch {
	case len(found) == 0:
		return "", &Error{Code: advice.CodeNoMethod, Candidates: nearNames(all, text), Err: fmt.Errorf("no method %q in the profile", text)}
	case len(found) == 1:
		return found[0], nil
	case len(asWritten) == 1:
		return asWritten[0], nil
	}
	return "", &Error{Code: advice.CodeAmbiguousMethod, Hint: "Give more of the name.", Candidates: found,
		Err: fmt.Errorf("%d methods are called %q", len(found), text)}
}

// AllNames returns the different names and titles of all methods, sorted.
func AllNames(names *ccmap.Names) []string {
	all := make([]string, names.Len(), 2*names.Len())
	for i := range all {
		m := names.At(ccmap.MethodID(i))
		all[i] = m.Name
		if title := m.Title(); title != m.Name {
			all = append(all, title)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Compare orders methods by name and signature. ccmap.NoMethod comes first.
func Compare(names *ccmap.Names, a, b ccmap.MethodID) int {
	if a == b || a == ccmap.NoMethod || b == ccmap.NoMethod {
		return cmp.Compare(b, a) // NoMethod is the highest id
	}
	x, y := names.At(a), names.At(b)
	return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Signature, y.Signature))
}

// plainName removes the parts of a Go name that people leave out: the parentheses and
// the star of a receiver, and type arguments.
func plainName(name string) string {
	name, rest, generic := strings.Cut(name, "[")
	if generic {
		name += rest[strings.LastIndexByte(rest, ']')+1:]
	}
	return receiverMarks.Replace(name)
}

var receiverMarks = strings.NewReplacer("(*", "", "(", "", ")", "")

// hasNameSuffix reports whether name ends in suffix at the start of a package, type or
// method.
func hasNameSuffix(name, suffix string) bool {
	head, found := strings.CutSuffix(name, suffix)
	return found && suffix != "" && (head == "" || strings.HasSuffix(head, ".") || strings.HasSuffix(head, "/"))
}

// nearNames returns the names that contain text, or whose last component is a few
// typing errors from its last component, the nearest first.
func nearNames(all []string, text string) []string {
	text = strings.ToLower(plainName(text))
	last := lastComponent(text)
	return advice.Near(all, func(name string) (typos int, near bool) {
		plain := strings.ToLower(plainName(name))
		typos = advice.Typos(lastComponent(plain), last)
		return typos, strings.Contains(plain, text) || typos <= advice.MostTypos(last)
	})
}

// lastComponent returns the text after the last dot or slash.
func lastComponent(name string) string { return name[strings.LastIndexAny(name, "./")+1:] }
