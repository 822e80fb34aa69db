package discordsim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// discordEpoch is the beginning of 2015. Snowflakes (Discord's ids) contain the milliseconds since then.
var discordEpoch = time.Date(2015, time.January, 1, 0, 0, 0, 0, time.UTC)

// SnowflakeAt returns the smallest id that Discord could have issued at a given time, which must not be before 2015.
func SnowflakeAt(t time.Time) uint64 {
	return uint64(t.Sub(discordEpoch).Milliseconds()) << 22
}

// SnowflakeTime returns the time at which Discord issued an id.
func SnowflakeTime(id uint64) time.Time {
	return discordEpoch.Add(time.Duration(id>>22) * time.Millisecond)
}

// Alternate gives each request of a rule one of two hashes, in turn.
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
// servers that are compatible with Discord do this. Rules with the same prefix share the counters of a channel. The
// client does not know a channel's hash before the first answer from that channel. So its first requests in a channel
// are judged like the first requests of an operation.
func HashByMajor(prefix string) func(Call) Variant {
	return func(call Call) Variant {
		return Variant{Hash: prefix + digest(call.Major)}
	}
}

// HashByPath gives every URL a hash of its own, which never changes. Some servers that are compatible with Discord do
// this. The rule's quota applies to each URL separately. Requests are judged as with [HashByMajor].
func HashByPath(prefix string) func(Call) Variant {
	return func(call Call) Variant {
		return Variant{Hash: prefix + digest(strings.Join(call.op.raw, "/"))}
	}
}

// ErrorBucket has a bucket of its own for those requests of a rule that get an error status. The responses to these
// requests carry that bucket's headers. Successes follow the rule, which may have no limit and no headers. status
// returns the status of the answer to a request, 0 for a success. When the bucket is full, requests that would be
// errors are refused. These refusals are excused, because no client can know which request will be an error.
func ErrorBucket(hash string, quota Quota, status func(Call) int) func(Call) Variant {
	return func(call Call) Variant {
		if s := status(call); s != 0 {
			return Variant{Hash: hash, Quota: quota, Status: s, Unpredictable: true}
		}
		return Variant{}
	}
}

// Ages has the three buckets of "Delete Message". The age of the message decides between them: up to about ten seconds
// (Young), older (Normal), or older than 14 days (Old). Client authors have observed this.
type Ages struct {
	Young, Normal, Old Variant
	// Missing reports whether a message does not exist. A request to delete such a message is answered with 404 and
	// counted in the bucket Young. Missing may be nil.
	Missing func(id uint64) bool
}

// ByMessageAge chooses the bucket by the message id at the end of the path and by the server's clock. A client can
// compute the age as well, so refusals are judged like those of other rules.
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
