package mergefiles

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ccmapd/ccmapd/ccmap"
)

// TestPrograms: a sum of one program keeps its target; a sum of several names them, the most frequent first, in a
// comment that stands once.
func TestPrograms(t *testing.T) {
	t.Parallel()
	web := ccmap.Target{Executable: "/srv/web", PID: 7}
	p := make(programs)
	meta := ccmap.Meta{Target: web, Comments: []string{"engine bpf", ccmap.CommentParts + "a, b"}}
	p.add(web)
	p.add(web)
	if p.describe(&meta); meta.Target.PID != 7 || len(meta.Comments) != 2 {
		t.Errorf("of one program: %+v", meta)
	}
	p.add(ccmap.Target{Executable: "/srv/api (deleted)"})
	p.add(ccmap.Target{})
	p.describe(&meta)
	if want := []string{"engine bpf", ccmap.CommentParts + "web (2), an unknown program, api"}; !slices.Equal(meta.Comments, want) || meta.Target.Executable != "" {
		t.Errorf("%+v, want %q", meta, want)
	}
	for i := range 2 * mostPrograms {
		p.add(ccmap.Target{Executable: fmt.Sprintf("/bin/p%d", i)})
	}
	if p.describe(&meta); len(p) > mostPrograms || len(meta.Comments) != 2 || len(meta.Comments[1]) > 200 {
		t.Errorf("%d programs: %q", len(p), meta.Comments)
	}
}

// FuzzPrograms: whatever the parts call their programs, each counts once, and one comment of bounded length names them.
func FuzzPrograms(f *testing.F) {
	for _, seed := range []string{"/srv/web\n/srv/web\n/srv/api (deleted)\n\n", "a\nb", "/\n//\n.", "\xff\xfe\na", strings.Repeat("x", 300) + "\n" + strings.Repeat("x", 301)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, parts := make(programs), strings.Split(text, "\n")
		for _, executable := range parts {
			p.add(ccmap.Target{Executable: executable})
		}
		counted := int64(0)
		for _, n := range p {
			counted += n
		}
		if len(parts) <= mostPrograms && counted != int64(len(parts)) {
			t.Errorf("%d parts count as %d: %v", len(parts), counted, p)
		}
		meta := ccmap.Meta{Target: ccmap.Target{Executable: "first"}, Comments: []string{"engine bpf"}}
		p.describe(&meta)
		p.describe(&meta)
		if len(p) < 2 {
			if len(meta.Comments) != 1 || meta.Target.Executable != "first" {
				t.Errorf("%+v of one program: %v", meta, p)
			}
			return
		}
		const others = 32 // ", ", the count, and how many more there are
		if len(meta.Comments) != 2 || !strings.HasPrefix(meta.Comments[1], ccmap.CommentParts) || !utf8.ValidString(meta.Comments[1]) ||
			len(meta.Comments[1]) > len(ccmap.CommentParts)+mostNamed*(3*mostName+others)+others || meta.Target.Executable != "" {
			t.Errorf("%+v of %v", meta, p)
		}
	})
}
