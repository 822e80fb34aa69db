package routes

import (
	"strconv"
	"strings"
	"time"
)

// The limit of DELETE message depends on the age of the message: client authors have observed three bucket hashes for
// this template. The Route DeleteMessage is for messages that are between 10 seconds and 14 days old.
var (
	// DeleteYoungMessage is DELETE message for messages that are younger than 10 seconds.
	DeleteYoungMessage = DeleteMessage.definition().as(variantYoung)
	// DeleteOldMessage is DELETE message for messages that are older than 14 days. Of the three bucket hashes, it has the
	// one with the strictest limit.
	DeleteOldMessage = DeleteMessage.definition().as(variantOld)
)

const (
	youngAge = 10 * time.Second
	oldAge   = 14 * 24 * time.Hour
)

// DeleteMessageAt compiles DELETE message. Like [MatchAt], it chooses the Route by the age of the message at the time
// now. The errors are those of [Route.Compile].
func DeleteMessageAt(channelID, messageID string, now time.Time) (CompiledRoute, error) {
	c, err := DeleteMessage.Compile(channelID, messageID)
	if c.route == DeleteMessage {
		c.route = deleteLane(c.path, now)
	}
	return c, err
}

// deleteLane returns the Route of DELETE message for the age of a message. The message's id is the last segment of the
// path.
func deleteLane(path string, now time.Time) Route {
	created, ok := SnowflakeTime(path[strings.LastIndexByte(path, '/')+1:])
	switch {
	case !ok:
		return DeleteMessage
	case created.After(now.Add(-youngAge)):
		return DeleteYoungMessage
	case created.Before(now.Add(-oldAge)):
		return DeleteOldMessage
	default:
		return DeleteMessage
	}
}

// SnowflakeTime returns the time at which Discord made an id. The upper 42 bits of an id are the milliseconds since the
// beginning of 2015 (Discord's documentation). SnowflakeTime returns false for an id that is not a number.
func SnowflakeTime(id string) (time.Time, bool) {
	number, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	const epoch = 1420070400000
	return time.UnixMilli(int64(number>>22) + epoch), true
}
