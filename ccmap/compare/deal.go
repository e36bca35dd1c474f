package compare

import (
	"cmp"
	"math/rand/v2"

	"github.com/ccmapd/ccmapd/ccmap"
)

// unit is what an independent sample weighs in a pool, so that shares of one are
// whole numbers.
const unit = 1 << 20

// most is what a pool weighs at most.
const most = 1 << 62

// dealer deals the samples of one profile to that profile and the other one.
type dealer struct {
	side
	stay  float64 // the chance to stay with the own profile
	scale float64 // units by weight
	dealt func(own, other uint64) value
}

func (t *tries) aDealt() dealer {
	return t.dealer(t.a, t.b, func(own, other uint64) value { return value{own, other} })
}

func (t *tries) bDealt() dealer {
	return t.dealer(t.b, t.a, func(own, other uint64) value { return value{other, own} })
}

func (t *tries) dealer(own, other side, dealt func(own, other uint64) value) dealer {
	all := own.independent + other.independent
	scale := min(unit, most/all) * own.independent / float64(t.weight.of(own.Total()))
	return dealer{own, own.independent / all, scale, dealt}
}

func (d dealer) deal(c *counts, toss *rand.Rand) {
	coin := coin{toss, d.stay, d.evidence}
	c.add(d.side, func(k counted) value {
		weight := uint64(min(float64(k.value)*d.scale, most))
		own := coin.share(weight, k.things)
		return d.dealt(own, weight-own)
	})
}

// compare orders profiles by what is in them. Only equal ones have no order.
func (s side) compare(o side) int {
	if s.Snapshot == o.Snapshot {
		return 0
	}
	order := cmp.Or(
		cmp.Compare(s.effect, o.effect),
		cmp.Compare(s.Total().Samples, o.Total().Samples),
		cmp.Compare(s.Total().Time, o.Total().Time),
		cmp.Compare(s.Total().Activations, o.Total().Activations),
		cmp.Compare(s.Len(), o.Len()),
	)
	for n := range s.Nodes() {
		if order != 0 {
			return order
		}
		m := o.Node(n.ID)
		order = cmp.Or(
			cmp.Compare(n.Parent, m.Parent),
			cmp.Compare(n.Offset, m.Offset),
			compareMethods(s.method(n.Method), o.method(m.Method)),
			cmp.Compare(n.Self.Samples, m.Self.Samples),
			cmp.Compare(n.Self.Time, m.Self.Time),
			cmp.Compare(n.Self.Activations, m.Self.Activations),
		)
	}
	return order
}

// method describes a method, NoMethod by nothing.
func (s side) method(id ccmap.MethodID) ccmap.Method {
	if id == ccmap.NoMethod {
		return ccmap.Method{}
	}
	return s.Names().At(id)
}

func compareMethods(m, n ccmap.Method) int {
	return cmp.Or(cmp.Compare(m.Name, n.Name), cmp.Compare(m.Signature, n.Signature))
}
