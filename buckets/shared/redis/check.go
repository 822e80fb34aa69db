package redis

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

//go:embed check.lua
var checkSource string

const (
	// marker is the value of the key markerName, which says that all keys with the same prefix belong to Ratelight.
	marker     = "ratelight"
	markerName = "v"
	// markerLife is how long the server stores the marker after the latest call of Open.
	markerLife = 30 * 24 * time.Hour
)

// check makes all the checks of Open.
func (s *settings) check(ctx context.Context, c *Client) error {
	if err := c.checkEngine(ctx); err != nil {
		return err
	}
	info, err := c.checkScripts(ctx, prefix(s.application))
	if err != nil {
		return err
	}
	if s.address != "" {
		if err := c.checkAddress(ctx, addressKey(s.address)); err != nil {
			return err
		}
	}
	if err := c.checkEvalsha(ctx, prefix(s.application)+markerName); err != nil {
		return err
	}
	if err := c.checkSubscribe(ctx, prefix(s.application)+"o:check"); err != nil {
		return err
	}
	return s.checkMemory(info)
}

// checkEngine checks that the server is of the expected kind and accepts the user.
func (c *Client) checkEngine(ctx context.Context) error {
	if err := c.checkMode(ctx); err != nil {
		return err
	}
	_, err := c.ask(ctx, "ping", c.inner.B().Ping().Build())
	return err
}

// ask sends the command that has the given name. If it returns an *Error, the error contains the name.
func (c *Client) ask(ctx context.Context, name string, command rueidis.Completed) (rueidis.RedisResult, error) {
	result, err := c.do(ctx, command)
	if err == nil {
		err = explain(result.Error())
	}
	var e *Error
	if errors.As(err, &e) && e.Command == "" {
		e.Command = name
	}
	return result, err
}

// checkMode detects whether the server is a Sentinel, or belongs to a cluster although the client takes it for a single
// server. It uses HELLO, which needs no permission, but is unknown to servers before Redis 6.
func (c *Client) checkMode(ctx context.Context) error {
	result, err := c.ask(ctx, "hello", c.inner.B().Arbitrary("HELLO").Build())
	var e *Error
	if errors.As(err, &e) && errors.Is(e, ErrRefused) {
		return nil
	}
	if err != nil {
		return err
	}
	said, _ := result.AsMap()
	mode := said["mode"]
	switch text, _ := mode.ToString(); {
	case text == "sentinel":
		return &Error{Problem: ErrSentinel, Cause: errors.New("this is a Sentinel, but the URL has no master_set")}
	case text == "cluster" && c.inner.Mode() == rueidis.ClientModeStandalone:
		cause := errors.New("the server is part of a cluster and does not list its nodes")
		return &Error{Problem: ErrPermission, Command: "cluster|slots", Cause: cause}
	}
	return nil
}

// checkScripts tries the commands that scripts use, and detects foreign data. It returns what INFO says about the
// memory, "" if the user lacks the permission for INFO.
func (c *Client) checkScripts(ctx context.Context, prefix string) (info string, err error) {
	commands, err := json.Marshal(probes)
	if err != nil {
		return "", err
	}
	probe := prefix + "check:" + rand.Text()
	keys := []string{prefix + markerName, probe}
	result, err := c.ask(ctx, "eval", c.inner.B().Eval().Script(checkSource).Numkeys(int64(len(keys))).Key(keys...).
		Arg(marker, strconv.FormatInt(markerLife.Milliseconds(), 10), string(commands), prefix+"o:check").Build())
	if err != nil {
		return "", about(err, prefix+"*")
	}
	reply, err := result.AsStrSlice()
	if err != nil || len(reply)%2 == 0 {
		return "", &Error{Problem: ErrScripts, Command: "eval", Cause: errors.New("unexpected reply of the script")}
	}
	if len(reply) == 1 {
		return reply[0], nil
	}
	what, said := reply[1], reply[2]
	if what == "key" {
		return "", &Error{Problem: ErrForeignKey, Key: keys[0], Cause: fmt.Errorf("it %s instead of %q", said, marker)}
	}
	return "", about(&Error{Problem: problem(said), Command: what, Cause: errors.New(said)}, prefix+"*")
}

// about adds a pattern to an error if the error says that the user may not use a key or a channel.
func about(err error, pattern string) error {
	var e *Error
	if errors.As(err, &e) && e.Problem == ErrPermission {
		if said := e.Cause.Error(); strings.Contains(said, " key") || strings.Contains(said, "channel") {
			e.Key = pattern
		}
	}
	return err
}

// ours matches the beginning of a value that processes store: the version of the value, and JSON.
var ours = regexp.MustCompile(`^-?\d+\.\d+ \{`)

// checkAddress checks that the key of the IP address does not exist, or holds the counts of processes. In a cluster,
// the key may be on another node than the other keys.
func (c *Client) checkAddress(ctx context.Context, key string) error {
	load := "local kind = redis.call('TYPE', KEYS[1]).ok " +
		"return {kind, kind == 'string' and string.sub(redis.call('GET', KEYS[1]), 1, 64) or ''}"
	result, err := c.ask(ctx, "eval", c.inner.B().Eval().Script(load).Numkeys(1).Key(key).Build())
	if err != nil {
		return about(err, key)
	}
	found, err := result.AsStrSlice()
	switch {
	case err != nil || len(found) != 2:
		return &Error{Problem: ErrScripts, Command: "eval", Cause: errors.New("unexpected reply of the script")}
	case found[0] != "none" && found[0] != "string":
		return &Error{Problem: ErrForeignKey, Key: key, Cause: fmt.Errorf("it is a %s", found[0])}
	case found[0] == "string" && !ours.MatchString(found[1]):
		return &Error{Problem: ErrForeignKey, Key: key, Cause: fmt.Errorf("it is the string %.40q", found[1])}
	}
	return nil
}

// checkEvalsha checks that the user may use EVALSHA, with a script that does not exist: if the server replies that
// there is no such script, the user may use the command.
func (c *Client) checkEvalsha(ctx context.Context, key string) error {
	result, err := c.do(ctx, c.inner.B().Evalsha().Sha1(strings.Repeat("0", 40)).Numkeys(1).Key(key).Build())
	if err != nil {
		return err
	}
	if said, ok := rueidis.IsRedisErr(result.Error()); ok && said.IsNoScript() {
		return nil
	}
	err = explain(result.Error())
	var e *Error
	if errors.As(err, &e) && e.Command == "" {
		e.Command = "evalsha"
	}
	return err
}

func (c *Client) checkSubscribe(ctx context.Context, channel string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	subscribed, err := c.listen(ctx, channel, cancel, func(string) {})
	if subscribed {
		return nil
	}
	err = explain(err)
	var e *Error
	if errors.As(err, &e) {
		e.Command, e.Key = "subscribe", channel
	}
	return err
}

// checkMemory checks which keys the server may evict when its memory is full.
func (s *settings) checkMemory(info string) error {
	if info == "" { // INFO may be forbidden
		return nil
	}
	limit, policy := field(info, "maxmemory"), field(info, "maxmemory_policy")
	switch {
	case limit == "0" || limit == "" || policy == "noeviction":
	case strings.HasPrefix(policy, "allkeys-") && !s.eviction:
		return &Error{Problem: ErrEviction, Cause: fmt.Errorf("maxmemory is %s bytes and maxmemory-policy %s", limit, policy)}
	case !s.eviction:
		// The policy evicts only keys that expire, which includes all keys of Ratelight.
		s.log().Warn("the server may evict limits when its memory is full: set maxmemory-policy to noeviction",
			slog.String("maxmemory", limit), slog.String("policy", policy))
	}
	return nil
}

// field returns the value of a field of INFO, "" if the field is missing.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
