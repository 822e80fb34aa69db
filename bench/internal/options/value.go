package options

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value is a flag.Value. Its errors say what is expected; package flag puts the flag and what was given in front of them.
type value struct {
	kind    string // what stands for it in the help; "" for a switch
	initial string // the default, as the help shows it; "" if there is nothing to show
	set     func(string) error
}

func (v value) Set(given string) error { return v.set(given) }
func (v value) String() string         { return "" }

// IsBoolFlag lets a switch stand without a value.
func (v value) IsBoolFlag() bool { return v.kind == "" }

func whole(target *int, low, high int) value {
	return value{"number", strconv.Itoa(*target), func(given string) error {
		n, err := strconv.Atoi(given)
		if err != nil || n < low || n > high {
			return fmt.Errorf("expected a whole number from %d to %d", low, high)
		}
		*target = n
		return nil
	}}
}

func seed(target *uint64) value {
	return value{"number", strconv.FormatUint(*target, 10), func(given string) error {
		n, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			return errors.New("expected a whole number, 0 or more")
		}
		*target = n
		return nil
	}}
}

func fraction(target *float64) value {
	return value{"fraction", "", func(given string) error {
		x, err := strconv.ParseFloat(given, 64)
		if err != nil || math.IsNaN(x) || x <= 0 || x > 1 {
			return errors.New("expected a fraction of the ideal, above 0 and at most 1, such as 0.97")
		}
		*target = x
		return nil
	}}
}

func span(target *time.Duration, low, high time.Duration) value {
	return value{"duration", short(*target), func(given string) error {
		d, err := time.ParseDuration(given)
		if err != nil || d < low || d > high {
			return fmt.Errorf("expected a duration with its unit from %s to %s, such as 250ms or 1.5s", short(low), short(high))
		}
		*target = d
		return nil
	}}
}

// optional is a value that nobody is asked for; there is no default to show.
func optional(v value) value {
	v.initial = ""
	return v
}

// short is a duration without the zero units at its end.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

func choice(target *string, choices ...string) value {
	return value{"kind", *target, func(given string) error {
		if !slices.Contains(choices, given) {
			return fmt.Errorf("expected one of %s", strings.Join(choices, ", "))
		}
		*target = given
		return nil
	}}
}

// address is looked at later, because an address may contain a secret, and package flag repeats what it refuses.
func address(target *string) value {
	return text("URL", target)
}

func text(kind string, target *string) value {
	return value{kind, *target, func(given string) error {
		if given == "" {
			return errors.New("expected a value that is not empty")
		}
		*target = given
		return nil
	}}
}

// secret is a text whose default is not shown, as there is none.
func secret(target *string) value {
	return text("text", target)
}

func boolean(target *bool) value {
	return value{"", "", func(given string) error {
		b, err := strconv.ParseBool(given)
		if err != nil {
			return errors.New("expected true or false, or no value at all")
		}
		*target = b
		return nil
	}}
}
