package browser

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

var update = flag.Bool("update", false, "write testdata/pages anew")

// told are the roles of what an outline has: what a page is made of, and what its reader can do there.
var told = []string{"banner", "navigation", "main", "heading", "region", "table", "treegrid", "columnheader", "button", "link", "searchbox", "textbox", "combobox", "status", "alert", "figure"}

// inside are the roles whose insides are figures of a profile.
var inside = []string{"cell", "gridcell", "rowheader"}

// switches are what the button of live pages says. A slow page has none yet.
var switches = []string{"live", "stopped"}

// outline returns the page as a reader of screens has it: roles and names, indented, without the figures in lists.
func (tb *tab) outline() string {
	tb.t.Helper()
	all, err := chromedp.Run(tb, func(ctx context.Context, t *chromedp.Target) ([]*accessibility.Node, error) {
		tree, err := cdp.Call(ctx, t, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		return tree.Nodes, err
	})
	if err != nil {
		tb.t.Fatal(err)
	}
	nodes := make(map[accessibility.NodeID]*accessibility.Node)
	for _, n := range all {
		nodes[n.NodeID] = n
	}
	var text strings.Builder
	var walk func(n *accessibility.Node, depth int)
	walk = func(n *accessibility.Node, depth int) {
		role := textOf(n.Role)
		if slices.Contains(inside, role) {
			return
		}
		if !n.Ignored && slices.Contains(told, role) && !slices.Contains(switches, textOf(n.Name)) {
			text.WriteString(strings.TrimRight(strings.Repeat("  ", depth)+role+" "+textOf(n.Name), " ") + "\n")
			depth++
		}
		for _, id := range n.ChildIDs {
			if child := nodes[id]; child != nil {
				walk(child, depth)
			}
		}
	}
	walk(all[0], 0)
	return text.String()
}

func textOf(v *accessibility.Value) (text string) {
	if v != nil {
		_ = json.Unmarshal([]byte(v.Value), &text) // another type has no text
	}
	return text
}

// hasOutline compares the outline of a page with testdata/pages/NAME.txt. To write it anew: go test -update
func (tb *tab) hasOutline(name string) {
	tb.t.Helper()
	path, got := filepath.Join("testdata", "pages", strings.ReplaceAll(name, " ", "-")+".txt"), tb.outline()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			tb.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		tb.t.Fatal(err)
	}
	if got != string(want) {
		tb.t.Errorf("%s is not the page any more that %s has; -update writes it:\n%s", name, path, got)
	}
}
