package mergefiles

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
)

// programs counts the parts of a sum by their programs. Profiles name them, so the names are foreign.
type programs map[string]int64

const (
	// mostPrograms bounds the programs that are counted, mostNamed those that a description names.
	mostPrograms, mostNamed = 10_000, 8

	// mostName bounds a name, bytes: the kernel's files have at most as many (NAME_MAX in linux/limits.h).
	mostName = 255
)

// add counts a part.
func (p programs) add(of ccmap.Target) {
	name := ""
	if of.Executable != "" {
		name = path.Base(strings.TrimSuffix(of.Executable, " (deleted)"))
		name = strings.ToValidUTF8(name[:min(len(name), mostName)], "\ufffd")
	}
	if _, known := p[name]; known || len(p) < mostPrograms {
		p[name]++
	}
}

// describe says in the metadata of a sum of several programs which they are: it has no target then, since the first
// program would pass for all.
func (p programs) describe(meta *ccmap.Meta) {
	if len(p) < 2 {
		return
	}
	names := slices.SortedFunc(maps.Keys(p), func(a, b string) int { return cmp.Or(cmp.Compare(p[b], p[a]), cmp.Compare(a, b)) })
	var parts []string
	for _, name := range names[:min(len(names), mostNamed)] {
		part := cmp.Or(name, "an unknown program")
		if p[name] > 1 {
			part += fmt.Sprintf(" (%s)", figure.Count(p[name]))
		}
		parts = append(parts, part)
	}
	if more := len(names) - mostNamed; more > 0 {
		parts = append(parts, fmt.Sprintf("%s more", figure.Count(int64(more))))
	}
	meta.Target = ccmap.Target{}
	meta.Comments = slices.DeleteFunc(meta.Comments, func(c string) bool { return strings.HasPrefix(c, ccmap.CommentParts) })
	meta.Comments = append(meta.Comments, ccmap.CommentParts+strings.Join(parts, ", "))
}
