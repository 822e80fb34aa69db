package goredis

import (
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	noRetries     = -1 // 0 would mean the default, which is 3
	dialerRetries = 1
	dialTimeout   = 2 * time.Second
	readTimeout   = 2 * time.Second // for calls whose context has no deadline
	reload        = 2 * time.Second
)

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Settings sets options that are zero to the values that Ratelight needs, and always sets ContextTimeoutEnabled. It
// changes and returns o.
func Settings(o *redis.Options) *redis.Options {
	set(&o.MaxRetries, noRetries)
	set(&o.DialerRetries, dialerRetries)
	set(&o.DialTimeout, dialTimeout)
	set(&o.ReadTimeout, readTimeout)
	o.ContextTimeoutEnabled = true
	return o
}

// ClusterSettings does the same as Settings, for a cluster.
func ClusterSettings(o *redis.ClusterOptions) *redis.ClusterOptions {
	set(&o.MaxRetries, noRetries)
	set(&o.DialerRetries, dialerRetries)
	set(&o.DialTimeout, dialTimeout)
	set(&o.ReadTimeout, readTimeout)
	set(&o.ClusterStateReloadInterval, reload)
	o.ContextTimeoutEnabled = true
	return o
}

// FailoverSettings does the same as Settings, for a primary with Sentinels.
func FailoverSettings(o *redis.FailoverOptions) *redis.FailoverOptions {
	set(&o.MaxRetries, noRetries)
	set(&o.DialerRetries, dialerRetries)
	set(&o.DialTimeout, dialTimeout)
	set(&o.ReadTimeout, readTimeout)
	o.ContextTimeoutEnabled = true
	return o
}
