package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// checkBooleans draws values and puts each through all conversions.
func checkBooleans(r *rand.Rand) error {
	values := make([]bool, 32)
	for i := range values {
		values[i] = r.Uint32()&1 == 1
	}
	for i, v := range values {
		next := values[(i+1)%len(values)]
		err := first(
			checkSpellings(v),
			checkLogic(v, next),
			checkBoxes(boolean(v), boolean(next), rank(v)-rank(next)),
		)
		if err != nil {
			return fmt.Errorf("%v: %w", v, err)
		}
	}
	return first(checkList(values), checkNoBoolean())
}

// rank orders false before true.
func rank(v bool) int {
	if v {
		return 1
	}
	return 0
}

// checkSpellings parses all spellings of the value.
func checkSpellings(v bool) error {
	text := strconv.FormatBool(v)
	capital := strings.ToUpper(text[:1])
	for _, spelled := range []string{text, strings.ToUpper(text), capital + text[1:], capital, text[:1], strconv.Itoa(rank(v))} {
		back, err := strconv.ParseBool(spelled)
		if err := first(err, same("parse "+spelled, back, v)); err != nil {
			return err
		}
	}
	var scanned bool
	_, err := fmt.Sscanf(fmt.Sprintf("%8t", v), "%t", &scanned)
	return first(err, same("scan", scanned, v))
}

// checkLogic checks De Morgan's laws, by functions chosen at run time.
func checkLogic(a, b bool) error {
	and := func(a, b bool) bool { return a && b }
	or := func(a, b bool) bool { return a || b }
	for _, law := range [][2]func(a, b bool) bool{{and, or}, {or, and}} {
		if err := same("De Morgan", !law[0](a, b), law[1](!a, !b)); err != nil {
			return err
		}
	}
	return nil
}

// checkList converts through JSON and a string of digits.
func checkList(values []bool) error {
	encoded, err := json.Marshal(values)
	if err != nil {
		return err
	}
	var back []bool
	if err := json.Unmarshal(encoded, &back); err != nil {
		return err
	}
	n, err := strconv.ParseUint(digits(back), 2, len(values))
	return first(err, same("digits", fmt.Sprintf("%0*b", len(values), n), digits(values)))
}

func digits(values []bool) string {
	var b strings.Builder
	for _, v := range values {
		b.WriteByte('0' + byte(rank(v)))
	}
	return b.String()
}

func checkNoBoolean() error {
	for _, text := range []string{"", "yes", "tRUE", "10"} {
		_, err := strconv.ParseBool(text)
		if err := same("parse "+text, errors.Is(err, strconv.ErrSyntax), true); err != nil {
			return err
		}
	}
	return nil
}

// boolean is a boxed bool.
type boolean bool

func (b boolean) String() string { return strconv.FormatBool(bool(b)) }
func (b boolean) Hash() uint64   { return uint64(rank(bool(b))) }

func (b boolean) Equals(other any) bool {
	o, ok := other.(boolean)
	return ok && o == b
}

func (b boolean) CompareTo(other any) (int, error) {
	o, ok := other.(boolean)
	if !ok {
		return 0, fmt.Errorf("compare %T with %T: %w", b, other, errType)
	}
	return rank(bool(b)) - rank(bool(o)), nil
}
