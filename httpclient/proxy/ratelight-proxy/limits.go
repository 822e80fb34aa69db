package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/buckets"
)

// declaredLimit is a limit that Discord's headers do not show. Its text form is that of the flag --limit, such as
// "METHOD PATH=N/TIME per major".
type declaredLimit struct {
	text   string
	option buckets.Option
}

var errDeclared = errors.New("expected a method and a path, or all; then a number and a time; " +
	"and then any of per major, per group and across credentials, " +
	`such as "PUT /guilds/{guild_id}/members/{user_id}/roles/{role_id}=10/10s per major"`)

func (d *declaredLimit) UnmarshalText(text []byte) error {
	d.text = string(text)
	match, rest, _ := strings.Cut(d.text, "=")
	number, options, _ := strings.Cut(strings.TrimSpace(rest), " ")
	limit, period, _ := strings.Cut(number, "/")
	n, problem := strconv.Atoi(limit)
	each, err := time.ParseDuration(period)
	if _, problem := strconv.ParseFloat(period, 64); problem == nil && err != nil {
		return fmt.Errorf("%q: the time %s has no unit: expected %[2]ss, %[2]sm or %[2]sh", d.text, period)
	}
	if problem != nil || err != nil {
		return fmt.Errorf("%q: %w", d.text, errDeclared)
	}
	var all []buckets.LimitOption
	for words := strings.Fields(options); len(words) > 0; words = words[2:] {
		switch strings.Join(words[:min(2, len(words))], " ") {
		case "per major":
			all = append(all, buckets.PerMajor())
		case "per group":
			all = append(all, buckets.PerGroup())
		case "across credentials":
			all = append(all, buckets.AcrossCredentials())
		default:
			return fmt.Errorf("%q: %w", d.text, errDeclared)
		}
	}
	d.option = buckets.WithLimit(matching(strings.TrimSpace(match)), n, each, all...)
	return usable(d.text, d.option)
}

// matching returns a match for "METHOD PATH", a path alone, or "all".
func matching(text string) buckets.Match {
	if text == "all" {
		return buckets.ForAll()
	}
	method, path, found := strings.Cut(text, " ")
	if !found {
		method, path = "", text
	}
	return buckets.ForPattern(method, strings.TrimSpace(path))
}

// knownNames returns the names of all buckets.KnownLimits.
func knownNames() string {
	var names []string
	for _, name := range buckets.KnownLimits() {
		names = append(names, string(name))
	}
	return strings.Join(names, ", ")
}

// knownLimit is the name of one of buckets.KnownLimits, or "all".
type knownLimit string

func (k *knownLimit) UnmarshalText(text []byte) error {
	if *k = knownLimit(text); *k == "all" {
		return nil
	}
	return usable(string(text), buckets.WithKnownLimits(buckets.KnownLimit(text)))
}

// usable returns an error that names the value of a flag if a manager rejects the options made from the value.
func usable(value string, options ...buckets.Option) error {
	m := buckets.NewRESTBucketManager(options...)
	defer m.Close()
	if err := m.Start(); err != nil {
		return fmt.Errorf("%q: %w", value, err)
	}
	return nil
}

// declared returns the options for all declared limits, or an error if a manager rejects their combination.
func (c *config) declared() ([]buckets.Option, error) {
	var options []buckets.Option
	var known []buckets.KnownLimit
	for _, name := range c.KnownLimit {
		if name == "all" {
			known = buckets.KnownLimits()
		} else {
			known = append(known, buckets.KnownLimit(name))
		}
	}
	slices.Sort(known)
	options = append(options, buckets.WithKnownLimits(slices.Compact(known)...))
	values := make([]string, len(c.Limit))
	for i, limit := range c.Limit {
		options, values[i] = append(options, limit.option), limit.text
	}
	if err := usable(strings.Join(values, ", "), options...); err != nil {
		return nil, fmt.Errorf("--limit: %w", err)
	}
	return options, nil
}
