package ccmap

// Blind says how much of a profile cannot be attributed, in percent of its time, or
// of its samples where it has no time.
type Blind struct {
	Truncated float64 // below [TruncatedName]: callers are missing
	Unknown   float64 // with [UnknownName] innermost, the kernel aside
}

// blindLimit is the percentage above which a profile misleads.
const blindLimit = 10

// Misleads reports whether so much cannot be attributed that the rest says little of
// the program. Such a profile is not called settled.
func (b Blind) Misleads() bool { return b.Truncated > blindLimit || b.Unknown > blindLimit }

// Blind returns how much of the profile cannot be attributed. It takes one walk
// through all nodes.
func (s *Snapshot) Blind() Blind {
	var truncated, unknown Counters
	below := make([]bool, s.Len()) // a truncated stack's root
	names := pseudo(s.names)
	for n := range s.Nodes() {
		below[n.ID] = names[n.Method] == TruncatedName || n.ID > 0 && below[n.Parent]
		if below[n.ID] {
			truncated = truncated.Add(n.Self)
		}
		innermost := n
		for innermost.ID > 0 && (innermost.Method == NoMethod || names[innermost.Method] == KernelName) { // a line, or the kernel
			innermost = s.Node(innermost.Parent)
		}
		if names[innermost.Method] == UnknownName {
			unknown = unknown.Add(n.Self)
		}
	}
	return Blind{Truncated: s.percent(truncated), Unknown: s.percent(unknown)}
}

// percent returns a part of the profile.
func (s *Snapshot) percent(c Counters) float64 {
	part, whole := c.Time, s.total.Time
	if whole == 0 {
		part, whole = c.Samples, s.total.Samples
	}
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// pseudo returns the names of the methods that are no functions.
func pseudo(names *Names) map[MethodID]string {
	found := make(map[MethodID]string)
	for id := range MethodID(names.Len()) {
		switch name := names.At(id).Name; name {
		case TruncatedName, KernelName, UnknownName:
			found[id] = name
		}
	}
	return found
}
