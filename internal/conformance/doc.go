// Package conformance runs the suite of httpclient/limitertest with managers that share limits, on a real Redis or
// Valkey server and in real time, and that of internal/enginetest with the script. Package buckets/shared does the same
// in virtual time with an engine in memory.
package conformance
