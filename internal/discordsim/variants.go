package discordsim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// discordEpoch is the beginning of 2015, from which snowflakes count milliseconds.
var discordEpoch = time.Date(2015, time.January, 1, 0, 0, 0, 0, time.UTC)

// SnowflakeAt returns the first id that Discord could have issued at a moment after the beginning of 2015.
func SnowflakeAt(t time.Time) uint64 {
	return uint64(t.Sub(discordEpoch).Milliseconds()) << 22
}

// SnowflakeTime returns when Discord issued an id.
func SnowflakeTime(id uint64) time.Time {
	return discordEpoch.Add(time.Duration(id>>22) * time.Millisecond)
}

// Alternate gives the requests of a rule one of two hashes in turn.
func Alternate(first, second string) func(Call) Variant {
	return func(call Call) Variant {
		if call.N%2 == 1 {
			return Variant{Hash: first, Unpredictable: true}
		}
		return Variant{Hash: second, Unpredictable: true}
	}
}

// EachTime gives every request a hash that has never been used.
func EachTime(prefix string) func(Call) Variant {
	return func(call Call) Variant {
		return Variant{Hash: fmt.Sprintf("%s%d", prefix, call.N), Unpredictable: true}
	}
}

// HashByMajor gives every major parameter (channel, guild, webhook) a hash of its own, which never changes. Some
// servers that are compatible with Discord behave like this: they have a bucket id for each channel. Rules with the
// same prefix share the counters of a channel. The client does not know a channel's hash before the first answer from
// that channel, so its first requests are judged like those of an operation that was never used.
func HashByMajor(prefix string) func(Call) Variant {
	return func(call Call) Variant {
		return Variant{Hash: prefix + digest(call.Major)}
	}
}

// HashByPath gives every URL a hash of its own, which never changes. Some servers that are compatible with Discord
// behave like this: they name buckets by URL. Each URL has the quota. Requests are judged as with [HashByMajor].
func HashByPath(prefix string) func(Call) Variant {
	return func(call Call) Variant {
		return Variant{Hash: prefix + digest(strings.Join(call.op.raw, "/"))}
	}
}

// ErrorBucket counts the errors of a rule in a bucket of their own, and their answers carry its headers. Successes
// follow the rule, which may have no limit and no headers. status returns the status of each request, 0 for a success.
// When the bucket is full, requests that would be errors are refused. No client can know which request will be an
// error.
func ErrorBucket(hash string, quota Quota, status func(Call) int) func(Call) Variant {
	return func(call Call) Variant {
		if s := status(call); s != 0 {
			return Variant{Hash: hash, Quota: quota, Status: s, Unpredictable: true}
		}
		return Variant{}
	}
}

// Ages are the buckets of "Delete Message", which depend on the age of the message: up to about ten seconds, older, or
// older than 14 days (observed by client authors).
type Ages struct {
	Young, Normal, Old Variant
	// Missing names messages that do not exist: requests to delete them are answered with 404 in the young bucket.
	// Missing may be nil.
	Missing func(id uint64) bool
}

// ByMessageAge chooses the bucket by the message id at the end of the path and by the server's clock. A client can
// compute the age as well, so refusals are judged like all others.
func ByMessageAge(ages Ages) func(Call) Variant {
	return func(call Call) Variant {
		id, err := strconv.ParseUint(call.op.raw[len(call.op.raw)-1], 10, 64)
		if err != nil {
			return Variant{}
		}
		if ages.Missing != nil && ages.Missing(id) {
			variant := ages.Young
			variant.Status = 404
			return variant
		}
		switch age := call.Clock.Sub(SnowflakeTime(id)); {
		case age < 10*time.Second:
			return ages.Young
		case age > 14*24*time.Hour:
			return ages.Old
		}
		return ages.Normal
	}
}
