// Package conformance runs the suite of httpclient/limitertest with managers that share limits, on a real Redis or
// Valkey server and in real time. It also runs the suite of internal/enginetest with the script. Package buckets/shared
// runs both suites in virtual time with an engine in memory.
package conformance
