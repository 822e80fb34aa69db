// Package measured has the rules of a simulated Discord that is like the real one, as far as that has been
// measured: see [Rules].
//
// Which routes have a limit, how their buckets fill up again, and which routes share one is measured (routes.txt). Most
// numbers are not: numbers.go says of each limit where it comes from.
package measured
