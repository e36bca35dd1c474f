package main

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// integer lists the integer types of the paper's tests; int stands for IntPtr.
type integer interface {
	int8 | int16 | int32 | int | uint8 | uint16 | uint32 | uintptr
}

// bits returns the size of the type.
func bits[T integer]() int { return int(8 * unsafe.Sizeof(T(0))) }

func signed[T integer]() bool { return ^T(0) < 0 }

// limits returns the smallest and the largest value of the type.
func limits[T integer]() (low, high T) {
	if signed[T]() {
		low = T(1) << (bits[T]() - 1)
	}
	return low, ^low
}

// checkIntegers draws values and puts each through all conversions.
func checkIntegers[T integer](r *rand.Rand) error {
	values := drawIntegers[T](r)
	for i, v := range values {
		next := values[(i+1)%len(values)]
		err := first(
			checkDigits(v),
			checkVerbs(v),
			checkBig(v),
			checkJSON(v),
			checkBoxes(number[T]{v}, number[T]{next}, cmp.Compare(v, next)),
		)
		if err != nil {
			return fmt.Errorf("%v: %w", v, err)
		}
	}
	return first(checkOrder(values), checkRange[T](), checkSyntax[T]())
}

// drawIntegers returns the limits and some values of all lengths.
func drawIntegers[T integer](r *rand.Rand) []T {
	low, high := limits[T]()
	values := []T{low, high, 0, 1}
	for range 12 {
		values = append(values, T(r.Uint64()>>r.IntN(64)))
	}
	return values
}

// checkDigits formats in several bases, and parses the results.
func checkDigits[T integer](v T) error {
	for _, base := range []int{2, 8, 10, 16, 36} {
		text := format(v, base)
		back, err := parse[T](text, base)
		if err := first(err, same("parse "+text, back, v)); err != nil {
			return err
		}
	}
	return nil
}

func format[T integer](v T, base int) string {
	if signed[T]() {
		return strconv.FormatInt(int64(v), base)
	}
	return strconv.FormatUint(uint64(v), base)
}

func parse[T integer](text string, base int) (T, error) {
	if signed[T]() {
		v, err := strconv.ParseInt(text, base, bits[T]())
		return T(v), err
	}
	v, err := strconv.ParseUint(text, base, bits[T]())
	return T(v), err
}

// checkVerbs formats with the verbs of fmt, and scans the results.
func checkVerbs[T integer](v T) error {
	for _, verb := range []string{"%d", "%-12d", "%#x", "%#o", "%12d"} {
		text := fmt.Sprintf(verb, v)
		var back T
		_, err := fmt.Sscanf(strings.TrimSpace(text), "%v", &back)
		if err := first(err, same("scan "+text, back, v)); err != nil {
			return err
		}
	}
	return nil
}

// checkBig converts through numbers of any size, the paper's Decimal.
func checkBig[T integer](v T) error {
	n, ok := new(big.Int).SetString(format(v, 10), 10)
	if !ok {
		return errors.New("not a number to math/big")
	}
	square := new(big.Int).Mul(n, n)
	root := new(big.Int).Sqrt(square)
	return same("root of the square", root.CmpAbs(n), 0)
}

// checkJSON encodes a record with the value in three ways.
func checkJSON[T integer](v T) error {
	type record struct {
		Value  T
		Text   number[T]
		Values []T
	}
	encoded, err := json.Marshal(record{v, number[T]{v}, []T{v, 0}})
	if err != nil {
		return err
	}
	var back record
	if err := json.Unmarshal(encoded, &back); err != nil {
		return err
	}
	return first(same("JSON number", back.Value, v), same("JSON text", back.Text.value, v))
}

// checkOrder sorts and finds all values again.
func checkOrder[T integer](values []T) error {
	sorted := slices.Clone(values)
	slices.SortFunc(sorted, func(a, b T) int { return cmp.Compare(a, b) })
	set := make(map[T]int)
	for _, v := range values {
		set[v]++
		if _, found := slices.BinarySearch(sorted, v); !found {
			return fmt.Errorf("%v is not among the sorted", v)
		}
	}
	return same("different values", len(slices.Compact(sorted)), len(set))
}

// checkRange parses numbers just out of range.
func checkRange[T integer]() error {
	low, high := limits[T]()
	above := new(big.Int).SetUint64(uint64(high))
	_, err := parse[T](above.Add(above, big.NewInt(1)).String(), 10)
	if err := same("over the limit", errors.Is(err, strconv.ErrRange), true); err != nil || low == 0 {
		return err
	}
	below := big.NewInt(int64(low))
	_, err = parse[T](below.Sub(below, big.NewInt(1)).String(), 10)
	return same("under the limit", errors.Is(err, strconv.ErrRange), true)
}

// checkSyntax parses texts that are not numbers.
func checkSyntax[T integer]() error {
	for _, text := range []string{"", "x", "1.5", "--1", "0x"} {
		_, err := parse[T](text, 10)
		if err := same("parse "+text, errors.Is(err, strconv.ErrSyntax), true); err != nil {
			return err
		}
	}
	return nil
}

// number is a boxed integer.
type number[T integer] struct{ value T }

func (n number[T]) String() string               { return format(n.value, 10) }
func (n number[T]) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

func (n *number[T]) UnmarshalText(text []byte) (err error) {
	n.value, err = parse[T](string(text), 10)
	return err
}

func (n number[T]) Equals(other any) bool {
	o, ok := other.(number[T])
	return ok && o == n
}

func (n number[T]) CompareTo(other any) (int, error) {
	o, ok := other.(number[T])
	if !ok {
		return 0, fmt.Errorf("compare %T with %T: %w", n, other, errType)
	}
	return cmp.Compare(n.value, o.value), nil
}

func (n number[T]) Hash() uint64 {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n.value)))
	return h.Sum64()
}
