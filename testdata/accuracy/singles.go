package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
)

// checkSingles draws values and puts each through all conversions.
func checkSingles(r *rand.Rand) error {
	values := drawSingles(r)
	for i, v := range values {
		next := values[(i+1)%len(values)]
		err := first(
			checkFormats(v),
			checkScan(v),
			checkParts(v),
			checkFraction(v),
			checkBoxes(single(v), single(next), cmp.Compare(v, next)),
		)
		if err != nil {
			return fmt.Errorf("%v: %w", v, err)
		}
	}
	return first(checkSorted(values), checkNumbers(values), checkNoNumber())
}

// drawSingles returns values of all sizes, and special ones.
func drawSingles(r *rand.Rand) []float32 {
	values := []float32{0, 1, -1, math.MaxFloat32, math.SmallestNonzeroFloat32}
	for len(values) < 20 {
		if v := math.Float32frombits(r.Uint32()); !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) {
			values = append(values, v)
		}
	}
	return values
}

// checkFormats formats to the shortest exact text, and parses it.
func checkFormats(v float32) error {
	for _, format := range []byte("efgGx") {
		text := strconv.FormatFloat(float64(v), format, -1, 32)
		back, err := strconv.ParseFloat(text, 32)
		if err := first(err, same("parse "+text, float32(back), v)); err != nil {
			return err
		}
	}
	return nil
}

func checkScan(v float32) error {
	for _, verb := range []string{"%v", "%.9e", "%+.9g"} {
		text := fmt.Sprintf(verb, v)
		var back float32
		_, err := fmt.Sscan(text, &back)
		if err := first(err, same("scan "+text, back, v)); err != nil {
			return err
		}
	}
	return nil
}

// checkParts takes a value apart and puts it together.
func checkParts(v float32) error {
	fraction, exponent := math.Frexp(float64(v))
	whole, rest := math.Modf(float64(v))
	return first(
		same("exponent", float32(math.Ldexp(fraction, exponent)), v),
		same("fraction", float32(whole+rest), v),
		same("square", float32(math.Sqrt(float64(v)*float64(v))), float32(math.Abs(float64(v)))),
		same("bits", math.Float32frombits(math.Float32bits(v)), v),
	)
}

// checkFraction converts through an exact fraction.
func checkFraction(v float32) error {
	exact, ok := new(big.Rat).SetString(strconv.FormatFloat(float64(v), 'g', -1, 64))
	if !ok {
		return errors.New("not a number to math/big")
	}
	back, _ := exact.Float32()
	return same("fraction", back, v)
}

func checkSorted(values []float32) error {
	sorted := slices.Sorted(slices.Values(values))
	return first(
		same("sorted", slices.IsSorted(sorted), true),
		same("least", sorted[0], slices.Min(values)),
		same("most", sorted[len(sorted)-1], slices.Max(values)))
}

func checkNumbers(values []float32) error {
	encoded, err := json.Marshal(values)
	if err != nil {
		return err
	}
	var back []float32
	err = json.Unmarshal(encoded, &back)
	return first(err, same("JSON", slices.Equal(back, values), true))
}

// checkNoNumber parses texts that are not numbers, or not of this size.
func checkNoNumber() error {
	nan, err := strconv.ParseFloat("NaN", 32)
	_, syntax := strconv.ParseFloat("1,5", 32)
	_, size := strconv.ParseFloat("1e39", 32)
	return first(err,
		same("not a number", math.IsNaN(nan), true),
		same("comma", errors.Is(syntax, strconv.ErrSyntax), true),
		same("size", errors.Is(size, strconv.ErrRange), true))
}

// single is a boxed float32.
type single float32

func (s single) String() string { return strconv.FormatFloat(float64(s), 'g', 7, 32) }

func (s single) Equals(other any) bool {
	o, ok := other.(single)
	return ok && o == s
}

func (s single) CompareTo(other any) (int, error) {
	o, ok := other.(single)
	if !ok {
		return 0, fmt.Errorf("compare %T with %T: %w", s, other, errType)
	}
	return cmp.Compare(s, o), nil
}

func (s single) Hash() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%08x", math.Float32bits(float32(s)))
	return h.Sum64()
}
