package ccmap

import "testing"

func TestParameters(t *testing.T) {
	for signature, want := range map[string]string{
		"()V":                          "()",
		"(I)I":                         "(int)",
		"(ILjava/lang/String;[[JLA;)V": "(int, String, long[][], A)",
		"([La/B$C;)V":                  "(B$C[])",
		"":                             "",
		"read":                         "",
		"(":                            "",
		"()":                           "",
		"(Q)V":                         "",
		"(L;)V":                        "",
		"(Ljava/lang/String)V":         "",
		"([)V":                         "",
		"(;)V":                         "",
	} {
		m := Method{Name: "A.m", Signature: signature, Coordinate: CoordinateBytecode}
		if got := m.Parameters(); got != want {
			t.Errorf("%q takes %q, want %q", signature, got, want)
		}
	}
	if got := (Method{Signature: "(I)I"}).Parameters(); got != "" {
		t.Errorf("a method without bytecode takes %q", got)
	}
}
