package advice

import (
	"errors"
	"fmt"
	"io"
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
