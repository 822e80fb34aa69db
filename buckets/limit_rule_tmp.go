package buckets

import "time"

type limitRule struct {
	name   string
	limit  int
	period time.Duration
}

type limitKey struct{ rule *limitRule }
