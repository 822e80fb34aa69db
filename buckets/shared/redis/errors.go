package redis

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/ratelight/ratelight/buckets/shared"
)

// What Open and calls to the engine fail with, for errors.Is. The error itself also says which command or key it is about, and what
// the engine said. All but the last few are *Error.
var (
	ErrUnreachable    = errors.New("engine does not answer: check host, port and firewall, and whether it runs")
	ErrTLS            = errors.New("no TLS connection: use rediss:// if and only if the port of the engine is one for TLS, and see WithTLS for certificates of your own")
	ErrProtocol       = errors.New("what answers is no Redis: check the port, and use rediss:// if it is one for TLS")
	ErrAuthentication = errors.New("user or password is missing or wrong: the URL is redis://user:password@host, or redis://:password@host without a user, percent-encoded")
	ErrPermission     = errors.New("user lacks a permission: see Permissions and ACLRules for all that it needs")
	ErrProtectedMode  = errors.New("engine is in protected mode and answers its own host only: set a password, or protected-mode no where the network is safe")
	ErrLoading        = errors.New("engine is still loading its data: try again in a moment")
	ErrReadOnly       = errors.New("engine is a read-only replica: name its primary, or the Sentinels with ?master_set=NAME")
	ErrScripts        = errors.New("engine runs no scripts: EVAL and EVALSHA must not be renamed or turned off")
	ErrTooOld         = errors.New("engine is too old: it has to be Redis 5 or newer, or Valkey")
	ErrMemory         = errors.New("engine is out of memory: raise maxmemory, or remove data of others")
	ErrEviction       = errors.New("engine may evict any key, and limits with them: set maxmemory-policy to noeviction, or see WithEviction")
	ErrCluster        = errors.New("cluster is down, or has no node for our keys: see CLUSTER INFO, and wait for it or repair it")
	ErrNoCluster      = errors.New("engine is no cluster, and the URL has several addresses: leave addr out, or name what Sentinels call the primary with master_set")
	ErrSentinel       = errors.New("the Sentinels do not name a primary: master_set in the URL has to be the name that they know, and the addresses have to be theirs")
	ErrDatabase       = errors.New("engine has no such database: use a lower number, and none in a cluster")
	ErrForeignKey     = errors.New("key holds what is not ours: delete it, or choose another name with WithApplication")
	ErrRefused        = errors.New("engine refuses")

	// ErrURL is returned by Open, with what is wrong. No part of the URL is in the error, as that may be a password.
	ErrURL = errors.New("redis: URL is not valid")
	// ErrApplication is returned by Open without WithApplication, and for a name that cannot be part of a key.
	ErrApplication = errors.New("redis: WithApplication has to name the bot")
	// ErrClosed is returned by calls after Close, and by managers that still use the store. It is a shared.ErrClosed.
	ErrClosed = fmt.Errorf("redis: Close was called: %w", shared.ErrClosed)
)

// Error is why the engine cannot be used, or why one call failed.
type Error struct {
	// Problem is one of the errors above: what is wrong and what to do.
	Problem error
	// Command is the command that was refused, in lower case, if it is about one.
	Command string
	// Key is the key or channel that it is about, if it is about one.
	Key string
	// Cause is what the engine or the client said, if it said something.
	Cause error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("redis: ")
	if e.Command != "" {
		fmt.Fprintf(&b, "%s: ", e.Command)
	}
	if e.Key != "" {
		fmt.Fprintf(&b, "%q: ", e.Key)
	}
	b.WriteString(e.Problem.Error())
	if e.Cause != nil {
		fmt.Fprintf(&b, " (%v)", e.Cause)
	}
	return b.String()
}

// Unwrap returns the problem and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Problem}
	}
	return []error{e.Problem, e.Cause}
}

// answers are the beginnings or parts of what engines say, and what it means. The first that matches counts.
var answers = []struct {
	part    string
	problem error
}{
	{"NOAUTH", ErrAuthentication},
	{"WRONGPASS", ErrAuthentication},
	{"invalid password", ErrAuthentication},                // Redis 5
	{"without any password configured", ErrAuthentication}, // a password that is not wanted
	{"NOPERM", ErrPermission},                              // commands
	{"The user executing the script can't", ErrPermission}, // in scripts, Redis 7.0
	{"ACL failure in script", ErrPermission},               // in scripts, later
	{"DENIED", ErrProtectedMode},
	{"LOADING", ErrLoading},
	{"READONLY", ErrReadOnly},
	{"MASTERDOWN", ErrReadOnly}, // a replica that lost its primary
	{"OOM ", ErrMemory},
	{"CLUSTERDOWN", ErrCluster},
	{"cluster support disabled", ErrNoCluster},
	{"unknown command 'CLUSTER'", ErrNoCluster}, // Sentinels
	{"unknown command `CLUSTER`", ErrNoCluster},
	{"TRYAGAIN", ErrCluster},                  // slots are moving
	{"MOVED ", ErrCluster},                    // more often than there are nodes
	{"non deterministic commands", ErrTooOld}, // Redis 4: TIME before a write
	{"DB index is out of range", ErrDatabase},
	{"invalid DB index", ErrDatabase},
	{"SELECT is not allowed in cluster mode", ErrDatabase},
	{"WRONGTYPE", ErrForeignKey},
	{"unknown command 'EVAL", ErrScripts},
	{"unknown command `EVAL", ErrScripts},
	{"Unknown Redis command called from script", ErrRefused},
}

// problem returns what an answer of the engine means.
func problem(said string) error {
	for _, a := range answers {
		if strings.Contains(said, a.part) {
			return a.problem
		}
	}
	return ErrRefused
}

// command is where an engine names the command that it refuses.
var command = regexp.MustCompile(`'([a-z|_-]+)'`)

// explain turns an error of the client into one that says what to do. Those of scripts that are about something else stay as they are.
func explain(err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) || errors.Is(err, ErrClosed) {
		return err
	}
	if errors.Is(err, rueidis.ErrClosing) {
		return ErrClosed
	}
	if errors.Is(err, rueidis.ErrNoSlot) {
		return &Error{Problem: ErrCluster, Cause: err}
	}
	said, fromEngine := rueidis.IsRedisErr(err)
	if !fromEngine {
		return connectionProblem(err)
	}
	text := said.Error()
	e := &Error{Problem: problem(text), Cause: err}
	if short := place.ReplaceAllString(text, ""); short != text {
		e.Cause = answer{err, short}
	}
	if e.Problem == ErrPermission {
		if m := command.FindStringSubmatch(text); m != nil {
			e.Command = m[1]
		}
	}
	return e
}

// place is where an engine says in which script something went wrong, and in which of its lines.
var place = regexp.MustCompile(` ?script: [0-9a-f]{40}, on @user_script:(\d+)\.?`)

// answer is what an engine said, without the place, which tells nobody anything.
type answer struct {
	error
	text string
}

func (a answer) Error() string { return a.text }
func (a answer) Unwrap() error { return a.error }

// calls matches the commands of scripts.
var calls = regexp.MustCompile(`redis\.p?call\('([A-Za-z]+)'`)

// refusedCommand returns the command that a script was refused, of which Redis 7.0 tells only the line; empty if that is not clear.
func refusedCommand(source, said string) string {
	found := place.FindStringSubmatch(said)
	if found == nil {
		return ""
	}
	number, _ := strconv.Atoi(found[1])
	lines := strings.Split(source, "\n")
	if number < 1 || number > len(lines) {
		return ""
	}
	name := ""
	for _, call := range calls.FindAllStringSubmatch(lines[number-1], -1) {
		if name != "" && !strings.EqualFold(name, call[1]) {
			return ""
		}
		name = strings.ToLower(call[1])
	}
	return name
}

// connectionProblem is explain for what did not come from the engine.
func connectionProblem(err error) error {
	late := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	var handshake handshakeError
	switch {
	case errors.As(err, &handshake) && late:
		// Redis takes the first bytes for the beginning of a command, and waits for more.
		return &Error{Problem: ErrUnreachable, Cause: errors.New("no answer to a TLS handshake: is the port one for TLS?")}
	case errors.As(err, &handshake):
		return &Error{Problem: ErrTLS, Cause: err}
	}
	if strings.Contains(err.Error(), "unknown message type") {
		return &Error{Problem: ErrProtocol, Cause: err}
	}
	// The context that ended may be that of somebody else who made the same connection: it says nothing about the caller's.
	if late {
		err = errors.New("no connection in time")
	}
	return &Error{Problem: ErrUnreachable, Cause: err}
}
