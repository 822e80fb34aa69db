package measured

import (
	"encoding/hex"
	"hash/fnv"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// The names of families that appear in the code.
const (
	reactions    = "reactions"
	webhookToken = "webhook-token"
)

// typical has the limits of routes whose numbers are not known. These limits have a usual size. Of them, only
// "unlimited" was measured completely: it is so high that the global limit never lets a client reach it.
var typical = map[string]discordsim.Quota{
	"token": discordsim.Leaky(5, 5*time.Second),
	"fixed": discordsim.Fixed(5, 5*time.Second),
	// Measured on one route: the period, and that the bucket opens 0.3 s late.
	"one":       discordsim.Fixed(1, 5*time.Second).Late(300*time.Millisecond, 0),
	"unlimited": discordsim.Fixed(1000, time.Millisecond),
	"none":      discordsim.Unlimited(),
}

// numbers has the limits whose numbers are known at least in part. The keys are names of routes or families.
var numbers = map[string]discordsim.Quota{
	// Measured: one request in 250 ms for each channel, and that the bucket opens late. How late was not published, so 0.2
	// s is assumed.
	reactions: discordsim.Fixed(1, 250*time.Millisecond).Late(200*time.Millisecond, 0),
	// Measured: Reset-After grows by 1.67 s with each request.
	"POST /invites/{code}/target-users/bulk-add": discordsim.Leaky(3, 5*time.Second),
	// In 2017, Discord's staff named this limit for posts to webhooks. Measured: posts share a bucket with the other
	// routes of the token.
	webhookToken: discordsim.Leaky(5, 2*time.Second),
	// Reported by client authors.
	"POST /channels/{channel_id}/messages/{message_id}/crosspost": discordsim.Fixed(10, time.Hour),
	// The limit was reported by client authors. The period is assumed.
	"GET /users/{user_id}": discordsim.Leaky(30, 30*time.Second),
}

// ages has the buckets that count deletions of messages, by the age of the message. The numbers were reported by client
// authors in 2026.
var ages = discordsim.Ages{
	Young:  discordsim.Variant{Hash: hash("delete-young"), Quota: discordsim.Leaky(5, time.Second)},
	Normal: discordsim.Variant{Hash: hash("delete"), Quota: discordsim.Leaky(3, time.Second/3)},
	Old:    discordsim.Variant{Hash: hash("delete-old"), Quota: discordsim.Leaky(30, 4*time.Second)},
}

// hash returns a bucket name that is as long as Discord's names.
func hash(name string) string {
	h := fnv.New128a()
	h.Write([]byte(name))
	return hex.EncodeToString(h.Sum(nil))
}
