package main

// means are those of several programs' figures: the last line of the paper's
// table, had it one.
type means struct {
	paper paperRow
	sum   agreement
	n     float64
}

func (m *means) add(paper paperRow, a agreement) {
	m.n++
	m.paper.correlation += paper.correlation
	m.paper.overlap += paper.overlap
	m.sum.pairs += a.pairs
	m.sum.samples += a.samples
	m.sum.pearson += a.pearson
	m.sum.spearman += a.spearman
	for k := range allKinds {
		m.sum.overlap[k] += a.overlap[k]
		m.sum.floor[k] += a.floor[k]
		m.sum.least[k] += a.least[k]
	}
}

// of returns the means, and the number of all pairs together.
func (m *means) of() (paperRow, agreement) {
	paper, a := m.paper, m.sum
	for _, sum := range []*float64{&paper.correlation, &paper.overlap, &a.samples, &a.pearson, &a.spearman} {
		*sum /= m.n
	}
	for k := range allKinds {
		a.overlap[k] /= m.n
		a.floor[k] /= m.n
		a.least[k] /= m.n
	}
	return paper, a
}
