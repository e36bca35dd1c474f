package main

import (
	"testing"

	"github.com/ccmapd/ccmapd/manager"
)

func TestGoal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]manager.Goal{
		"95%":           {Of: manager.Edges, Percent: 95},
		"95":            {Of: manager.Edges, Percent: 95},
		"edges:99.5 %":  {Of: manager.Edges, Percent: 99.5},
		"contexts:80%":  {Of: manager.Contexts, Percent: 80},
		"methods: 98 %": {Of: manager.Methods, Percent: 98},
	} {
		var got goal
		if err := got.Set(text); err != nil || got.Goal != want {
			t.Errorf("%q is %v, want %v; %v", text, got.Goal, want, err)
		}
		if again := new(goal); again.Set(got.String()) != nil || *again != got {
			t.Errorf("%q is printed as %q, which is %v", text, &got, again)
		}
	}
	for _, text := range []string{"", "%", "0%", "100%", "-3", "lines:95%", "edges:", "edges:NaN", "95%%"} {
		if got := new(goal); got.Set(text) == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}
