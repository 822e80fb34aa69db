// Package conformance puts managers that share limits through the suite of httpclient/limitertest on a real Redis or Valkey server, in
// real time. In virtual time, and with a server in memory, buckets/shared does the same.
package conformance
