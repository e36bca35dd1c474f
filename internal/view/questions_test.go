package view

import (
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// TestQuestions: names are unique, each parameter has help and a value of a known type, and numbers and words have
// defaults that they may have.
func TestQuestions(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, q := range Questions() {
		if found, ok := QuestionNamed(q.Name); !ok || found.Name != q.Name || known[q.Name] {
			t.Errorf("%q is not found, or there twice", q.Name)
		}
		known[q.Name] = true
		params := map[string]bool{}
		for _, p := range q.New().Params {
			if p.Name == "" || p.Help == "" || params[p.Name] {
				t.Errorf("%s: parameter %q has no name or no help, or is there twice", q.Name, p.Name)
			}
			params[p.Name] = true
			switch v := p.Value.(type) {
			case *bool, *string:
			case *uint:
				checkDefault(t, q, p, float64(*v))
			case *float64:
				checkDefault(t, q, p, *v)
			case Value:
				if text := v.String(); text != "" && v.UnmarshalText([]byte(text)) != nil {
					t.Errorf("%s: %s does not take its default %q", q.Name, p.Name, text)
				}
			default:
				t.Errorf("%s: %s has a value of type %T", q.Name, p.Name, v)
			}
		}
	}
	if _, ok := QuestionNamed("cold"); ok {
		t.Error("there is a question cold")
	}
}

func checkDefault(t *testing.T, q Question, p Param, value float64) {
	t.Helper()
	if p.Most > 0 && (value < p.Least || value > p.Most || p.Over && value == p.Least) {
		t.Errorf("%s: the default %v of %s is not in its range", q.Name, value, p.Name)
	}
}

// TestFormsAreSeparate: a form does not see the values of another one.
func TestFormsAreSeparate(t *testing.T) {
	t.Parallel()
	for _, q := range Questions() {
		for i, p := range q.New().Params {
			if v, ok := p.Value.(*uint); ok {
				*v = 7
				if got := *q.New().Params[i].Value.(*uint); got == 7 {
					t.Errorf("%s: a new form has %s %d", q.Name, p.Name, got)
				}
			}
		}
	}
}

// TestPhase: a number from 1, the last, or none.
func TestPhase(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1", "17", "4294967295", "last"} {
		var f phase
		if err := f.UnmarshalText([]byte(text)); err != nil || f.String() != text {
			t.Errorf("%q is read as %q, %v", text, &f, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "x", "4294967296", "Last"} {
		var f phase
		if err := f.UnmarshalText([]byte(text)); err == nil || !strings.HasSuffix(err.Error(), `is neither a number from 1 nor "last"`) {
			t.Errorf("%q: %v", text, err)
		}
	}
	p := New("drawing", profiletest.Drawing(500).Snapshot())
	for _, test := range []struct {
		phase phase
		want  string
	}{{phase{}, ""}, {phase{number: 1}, "1"}, {phase{last: true}, "1"}} {
		p.phase = nil
		err := test.phase.use(p)
		if got := p.phase; err != nil || (got == nil) != (test.want == "") || got != nil && phaseName(*got) != test.want {
			t.Errorf("phase %q: %v, want %q", &test.phase, err, test.want)
		}
	}
}
