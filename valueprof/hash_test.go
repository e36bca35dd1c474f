package valueprof

import (
	"testing"

	"github.com/klauspost/cpuid/v2"
)

func TestHashNames(t *testing.T) {
	t.Parallel()
	for _, h := range append(Hashes(), HashAuto) {
		if got, err := ParseHash(h.String()); got != h || err != nil {
			t.Errorf("ParseHash(%q) = %v, %v", h, got, err)
		}
	}
	for _, name := range []string{"", "PEXT", "crc"} {
		if h, err := ParseHash(name); err == nil {
			t.Errorf("ParseHash(%q) = %v, want an error", name, h)
		}
	}
	if got := Hash(200).String(); got != "hash(200)" {
		t.Errorf("Hash(200) is called %q", got)
	}
}

func TestHashResolve(t *testing.T) {
	t.Parallel()
	if got := HashAuto.Resolve(); got != HashMultiply {
		t.Errorf("auto resolves to %v", got)
	}
	for _, h := range Hashes() {
		if got := h.Resolve(); got != h {
			t.Errorf("%v resolves to %v", h, got)
		}
	}
}

func TestPextIsFast(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		cpu    string
		vendor cpuid.Vendor
		family int
		want   bool
	}{
		{"Haswell", cpuid.Intel, 6, true},
		{"Excavator", cpuid.AMD, 0x15, false},
		{"Zen", cpuid.AMD, 0x17, false},
		{"Dhyana", cpuid.Hygon, 0x18, false},
		{"Zen 3", cpuid.AMD, 0x19, true},
		{"Zen 5", cpuid.AMD, 0x1a, true},
	} {
		cpu := &cpuid.CPUInfo{VendorID: test.vendor, Family: test.family}
		if pextIsFast(cpu) {
			t.Errorf("%s: fast without the instruction", test.cpu)
		}
		cpu.Enable(cpuid.BMI2)
		if got := pextIsFast(cpu); got != test.want {
			t.Errorf("%s: %v, want %v", test.cpu, got, test.want)
		}
	}
}
