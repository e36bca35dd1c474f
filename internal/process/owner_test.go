package process

import "testing"

// TestOwnerTable goes through the table of owner, one cause at a time.
func TestOwnerTable(t *testing.T) {
	t.Parallel()
	const here = "user:[1]"
	own := credentials{uids: [3]int{5, 5, 5}, gids: [3]int{6, 6, 6}, dumpOwner: 5, users: here}
	if got := own.owner(here); got != (Owner{UID: 5, GID: 6, Traceable: true}) {
		t.Errorf("a plain process: %+v", got)
	}
	for name, change := range map[string]func(*credentials){
		"real user":        func(c *credentials) { c.uids[0] = 7 },
		"effective user":   func(c *credentials) { c.uids[1] = 7 },
		"saved user":       func(c *credentials) { c.uids[2] = 7 },
		"real group":       func(c *credentials) { c.gids[0] = 7 },
		"effective group":  func(c *credentials) { c.gids[1] = 7 },
		"saved group":      func(c *credentials) { c.gids[2] = 7 },
		"capabilities":     func(c *credentials) { c.permitted = 1 << 40 },
		"not dumpable":     func(c *credentials) { c.dumpOwner = 0 },
		"a namespace":      func(c *credentials) { c.users = "user:[2]" },
		"no namespace":     func(c *credentials) { c.users = "" },
		"nothing is known": func(c *credentials) { *c = unknownCredentials },
	} {
		other := own
		change(&other)
		if got := other.owner(here); got.Traceable {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := (credentials{}).owner(""); got.Traceable {
		t.Errorf("no namespace is known of either: %+v", got)
	}
}

const status = "Name:\tUid:\\n\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nCapPrm:\t00000000000000f0\nSeccomp:\t0\n"

func TestParseIDs(t *testing.T) {
	t.Parallel()
	want := credentials{uids: [3]int{1, 2, 3}, gids: [3]int{5, 6, 7}, permitted: 0xf0, dumpOwner: -1}
	if got, err := parseIDs(status); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{
		"", "Uid:\t1\t1\t1\t1\n", status + "Uid:\t0\t0\t0\t0\n", "Uid:\t1\t1\nGid:\t1\t1\t1\nCapPrm:\t0\n",
		"Uid:\t-1\t1\t1\nGid:\t1\t1\t1\nCapPrm:\t0\n", "Uid:\t1\t1\t1\nGid:\t1\t1\t1\nCapPrm:\tx\n",
	} {
		if got, err := parseIDs(text); err == nil || got != unknownCredentials {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// FuzzParseIDs: whatever the text, the identities are of three good lines, or not known.
func FuzzParseIDs(f *testing.F) {
	f.Add(status)
	f.Add("Uid:\t1\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseIDs(text)
		if err != nil && got != unknownCredentials {
			t.Errorf("%+v beside %v", got, err)
		}
		if got.owner("").Traceable || got.owner("user:[1]").Traceable {
			t.Errorf("traceable by identities alone: %+v", got)
		}
	})
}

func TestIsUnfiltered(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{status: true, "Seccomp:\t2\n": false, "Seccomp:\t1\n": false, "Name:\tSeccomp:\n": true} {
		if got := isUnfiltered(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
