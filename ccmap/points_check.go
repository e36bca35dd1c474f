package ccmap

import (
	"fmt"
	"slices"
)

// checkPoints checks that points are sorted and each of them is as
// [Map.AddPoint] makes it.
func checkPoints(list []Point, names *Names) error {
	for i := range list {
		if err := list[i].CheckValid(names); err != nil {
			return fmt.Errorf("point %d: %w", i, err)
		}
		if i > 0 && list[i-1].Compare(list[i]) >= 0 {
			return fmt.Errorf("point %d does not come before point %d", i-1, i)
		}
	}
	return nil
}

// CheckValid returns an error that says what no point of these names can be, nil
// if there is nothing. It is for tests, and for points that were decoded.
func (p Point) CheckValid(names *Names) error {
	methods := names.Len()
	switch ownEnd := p.Kind == PointBlock || p.Kind == PointBranch; {
	case !p.exists():
		return fmt.Errorf("it is of %v, %v", p.Origin, p.Kind)
	case int64(p.Method) >= int64(methods):
		return fmt.Errorf("method %d of %d", p.Method, methods)
	case p.End != p.Offset && !ownEnd:
		return fmt.Errorf("a %v from %d ends at %d", p.Kind, p.Offset, p.End)
	case len(p.Callers) > MaxPointCallers:
		return fmt.Errorf("%d callers", len(p.Callers))
	}
	for _, f := range p.Callers {
		if int64(f.Method) >= int64(methods) {
			return fmt.Errorf("caller %d of %d", f.Method, methods)
		}
	}
	if err := p.checkValues(methods); err != nil {
		return err
	}
	return p.checkCounts()
}

func (p *Point) checkCounts() error {
	switch {
	case min(p.Count, p.Other, p.Aged) < 0 || p.Nulls < NullsUnknown:
		return fmt.Errorf("negative counts: %d, %d other, %d aged, %d nulls", p.Count, p.Other, p.Aged, p.Nulls)
	case p.KnowsValues() && p.Count != p.sum():
		return fmt.Errorf("counts %d, and its values add up to %d", p.Count, p.sum())
	case p.Kind == PointBlock && p.KnowsValues():
		return fmt.Errorf("a block with values")
	case p.Kind != PointCall && p.Nulls > 0:
		return fmt.Errorf("a %v with null receivers", p.Kind)
	}
	return nil
}

func (p *Point) checkValues(methods int) error {
	if !slices.IsSortedFunc(p.Values, PointValue.Compare) {
		return fmt.Errorf("values in no order")
	}
	seen := make(map[uint64]bool, len(p.Values))
	for _, v := range p.Values {
		switch {
		case v.Count <= 0:
			return fmt.Errorf("value %d counts %d", v.Value, v.Count)
		case seen[v.Value]:
			return fmt.Errorf("value %d stands twice", v.Value)
		case p.Kind == PointCall && v.Value >= uint64(methods):
			return fmt.Errorf("it reaches method %d of %d", v.Value, methods)
		case p.Kind == PointBranch && v.Value > 1:
			return fmt.Errorf("a branch to %d", v.Value)
		}
		seen[v.Value] = true
	}
	return nil
}
