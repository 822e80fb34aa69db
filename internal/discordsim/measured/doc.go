// Package measured has the rules of a simulated Discord that resembles the real one, as far as that was measured: see
// [Rules].
//
// routes.txt was measured: which routes have a limit, how their buckets refill, and which routes share a bucket. Most
// numbers were not measured: numbers.go names the source of each.
package measured
