//go:build !locktimes || !linux

package buckets

import "sync"

// mutex is the lock of a server. With the build tag locktimes, which only tests set, it also measures how long it is
// held.
type mutex = sync.Mutex
