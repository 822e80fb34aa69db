//go:build race

package soak

// raceDetector reports that it is on. It does not see that nothing moves in a bubble while something is read without
// its lock.
const raceDetector = true
