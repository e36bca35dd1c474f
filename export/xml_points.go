package export

import (
	"encoding/xml"
	"fmt"
	"strconv"
)

// point is decoded by hand, as nodes are: a program has tens of thousands of
// blocks.
func (x xmlReader) point(start xml.StartElement) error {
	if start.Name.Local != "point" {
		return x.Skip()
	}
	var d pointDoc
	err := setAll(start, d.set)
	if err == nil {
		err = x.children(func(start xml.StartElement) error { return x.pointPart(start, &d) })
	}
	if err != nil {
		return err
	}
	x.elements.reset()
	return x.b.addPoint(d)
}

// pointPart reads an element of a point.
func (x xmlReader) pointPart(start xml.StartElement, d *pointDoc) error {
	switch start.Name.Local {
	case "context":
		d.Context = []callerDoc{}
		return x.children(func(start xml.StartElement) error { return x.caller(start, d) })
	case "value":
		var v valueDoc
		if err := setAll(start, v.set); err != nil {
			return err
		}
		d.Values = append(d.Values, v)
	}
	return x.Skip()
}

func (x xmlReader) caller(start xml.StartElement, d *pointDoc) error {
	if start.Name.Local == "caller" {
		var c callerDoc
		if err := setAll(start, c.set); err != nil {
			return err
		}
		d.Context = append(d.Context, c)
	}
	return x.Skip()
}

// setAll sets what the attributes of an element say. Others than set knows are
// skipped.
func setAll(start xml.StartElement, set func(xml.Attr) error) error {
	for _, a := range start.Attr {
		if err := set(a); err != nil {
			return fmt.Errorf("attribute %s of <%s>: %w", a.Name.Local, start.Name.Local, err)
		}
	}
	return nil
}

func (d *pointDoc) set(a xml.Attr) error {
	switch a.Name.Local {
	case "origin":
		d.Origin = a.Value
	case "kind":
		d.Kind = a.Value
	case "method":
		return setNumber(&d.Method, a)
	case "offset":
		return setNumber(&d.Offset, a)
	case "end":
		return setNumber(&d.End, a)
	case "phase":
		return setNumber(&d.Phase, a)
	case "count":
		return setNumber(&d.Count, a)
	case "other":
		return setNumber(&d.Other, a)
	case "aged":
		return setNumber(&d.Aged, a)
	case "nulls":
		return setNumber(&d.Nulls, a)
	}
	return nil
}

func (d *callerDoc) set(a xml.Attr) error {
	switch a.Name.Local {
	case "method":
		return setNumber(&d.Method, a)
	case "offset":
		return setNumber(&d.Offset, a)
	}
	return nil
}

func (d *valueDoc) set(a xml.Attr) error {
	switch a.Name.Local {
	case "value":
		return setNumber(&d.Value, a)
	case "count":
		return setNumber(&d.Count, a)
	}
	return nil
}

func setNumber(to **int64, a xml.Attr) error {
	n, err := strconv.ParseInt(a.Value, 10, 64)
	*to = &n
	return err
}
