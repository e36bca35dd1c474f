package privilege

import (
	"fmt"
	"io"
)

// Confinement says how ccmapd is confined on this machine.
type Confinement struct {
	Capabilities string `json:"capabilities"` // that sampling keeps, as setcap(8) lists them
	Raised       bool   `json:"raised"`       // in effect during calls on targets alone
	NoNewPrivs   bool   `json:"no_new_privs"`
	Seccomp      bool   `json:"seccomp"`
	Landlock     int    `json:"landlock"` // version of its interface; 0: not in this kernel
}

// Confinement describes the confinement of this process.
func (p *Process) Confinement() Confinement {
	if p == nil {
		return Confinement{}
	}
	return Confinement{
		Capabilities: p.Capabilities(), Raised: p.Granted(), NoNewPrivs: true,
		Seccomp: HasSeccomp(), Landlock: LandlockABI(),
	}
}

// Print describes the confinement in lines for people.
func (c Confinement) Print(w io.Writer) {
	fmt.Fprintf(w, "capabilities: %s\n", c.kept())
	for _, line := range []struct {
		name  string
		here  bool
		means string
	}{
		{"no_new_privs", c.NoNewPrivs, "in force in all commands but those that start programs: run and demo"},
		{"seccomp", c.Seccomp, "commands that read profiles cannot execute, trace or connect"},
		{"landlock", c.Landlock > 0, fmt.Sprintf("version %d: commands that read profiles write to their output alone", c.Landlock)},
	} {
		if !line.here {
			line.means = "not permitted here, or not in this kernel: it confines nothing"
		}
		fmt.Fprintf(w, "%s: %s\n", line.name, line.means)
	}
}

// kept describes the capabilities that sampling keeps.
func (c Confinement) kept() string {
	switch {
	case c.Capabilities == "":
		return "none"
	case c.Raised:
		return c.Capabilities + ", in effect during calls on the target alone"
	}
	return c.Capabilities + ", all others dropped"
}
