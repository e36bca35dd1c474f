package advice

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"
)

func TestAdvice(t *testing.T) {
	t.Parallel()
	if err := Add(nil, "nothing to do"); err != nil {
		t.Errorf("advice about no error: %v", err)
	}
	if text, ok := Of(io.EOF); ok || text != "" {
		t.Errorf("advice about %v: %q", io.EOF, text)
	}
	inner := Add(io.EOF, "Take %d.", 1)
	outer := fmt.Errorf("read: %w", Add(inner, "Take it again."))
	if text, ok := Of(outer); !ok || text != "Take it again." {
		t.Errorf("advice %q", text)
	}
	if !errors.Is(outer, io.EOF) || outer.Error() != "read: EOF" {
		t.Errorf("error %v", outer)
	}
}

// TestOutermost: advice and code are the outermost that an error has, also among several.
func TestOutermost(t *testing.T) {
	t.Parallel()
	coded := &Error{Code: CodeBusy, Err: io.EOF}
	for _, test := range []struct {
		err  error
		code Code
		hint string
	}{
		{nil, "", ""},
		{io.EOF, "", ""},
		{coded, CodeBusy, ""},
		{Add(coded, "Wait."), CodeBusy, "Wait."},
		{&Error{Code: CodeFailed, Err: Add(coded, "Wait.")}, CodeFailed, "Wait."},
		{errors.Join(Add(io.EOF, "Wait."), fmt.Errorf("read: %w", coded)), CodeBusy, "Wait."},
		{errors.Join(io.EOF, io.ErrUnexpectedEOF), "", ""},
	} {
		if hint, _ := Of(test.err); hint != test.hint || CodeOf(test.err) != test.code {
			t.Errorf("%v: code %q and hint %q, want %q and %q", test.err, CodeOf(test.err), hint, test.code, test.hint)
		}
	}
}

// TestExplain: the code that an error has goes before those of its reasons, and these go by their order.
func TestExplain(t *testing.T) {
	t.Parallel()
	reasons := []Reason{{fs.ErrNotExist, CodeNoTarget, ""}, {io.EOF, CodeBusy, "Wait."}}
	for _, test := range []struct {
		err  error
		code Code
		hint string
	}{
		{errors.Join(io.EOF, fs.ErrNotExist), CodeNoTarget, ""},
		{Add(fs.ErrNotExist, "Make it."), CodeNoTarget, "Make it."},
		{Add(io.EOF, "Make it."), CodeBusy, "Wait."},
		{fmt.Errorf("read: %w", &Error{Code: CodeUsage, Err: io.EOF}), CodeUsage, ""},
	} {
		got := Explain(test.err, reasons)
		if got == nil || got.Code != test.code || got.Hint != test.hint {
			t.Errorf("%v: %+v, want code %s and hint %q", test.err, got, test.code, test.hint)
		}
	}
	if got := Explain(fs.ErrExist, reasons); got != nil {
		t.Errorf("an error without a reason: %+v", got)
	}
}
