package classes

// Forget drops everything that was read.
func (t *Table) Forget() { t.forget() }
