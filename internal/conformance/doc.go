// Package conformance runs the test suite of httpclient/limitertest with managers that share limits on a real Redis or
// Valkey server, in real time. It also runs the suite of internal/enginetest with the script of buckets/shared on such
// a server. Package buckets/shared itself runs both suites in virtual time, with an engine in memory.
package conformance
