// Package conformance runs the suite of httpclient/limitertest with managers that share limits, on a real Redis or
// Valkey server and in real time. Package buckets/shared does the same in virtual time with a server in memory.
package conformance
