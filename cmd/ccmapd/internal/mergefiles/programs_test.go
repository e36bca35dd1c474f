package mergefiles

import (
	"fmt"
	"slices"
	"testing"

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
