// Package measured has the rules of a simulated Discord whose limits resemble those of the real Discord, as far as they
// were measured: see [Rules].
//
// The content of routes.txt was measured: which routes have a limit, how their buckets refill, and which routes share a
// bucket. Most numbers were not measured. numbers.go names the source of each number.
package measured
