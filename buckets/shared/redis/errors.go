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

// These errors say, for errors.Is, why Open or a call to the server failed. All of them except ErrURL, ErrApplication
// and ErrClosed are wrapped in an *Error, which also contains the command or key and the server's message.
var (
	ErrUnreachable = errors.New("the server does not answer: " +
		"check host, port and firewall, and whether it is running")
	ErrTLS = errors.New("no TLS connection: " +
		"use rediss:// if and only if the port of the server is a TLS port, and see WithTLS for your own certificates")
	ErrProtocol = errors.New("the server does not speak the Redis protocol: " +
		"check the port, and use rediss:// if it is a TLS port")
	ErrAuthentication = errors.New("user or password is missing or wrong: " +
		"expected redis://user:password@host, or redis://:password@host without a user, percent-encoded")
	ErrPermission = errors.New("the user lacks a permission: " +
		"see Permissions and ACLRules for all permissions that it needs")
	ErrProtectedMode = errors.New("the server is in protected mode and accepts only local connections: " +
		"set a password, or protected-mode no if the network is safe")
	ErrLoading  = errors.New("the server is still loading its data: try again in a moment")
	ErrReadOnly = errors.New("the server is a read-only replica: " +
		"use the address of its primary, or of the Sentinels with ?master_set=NAME")
	ErrScripts  = errors.New("the server does not run scripts: EVAL and EVALSHA must not be renamed or disabled")
	ErrTooOld   = errors.New("the server is too old: expected Redis 5 or newer, or Valkey")
	ErrMemory   = errors.New("the server is out of memory: raise maxmemory, or remove other data")
	ErrEviction = errors.New("the server may evict any key, including limits: " +
		"set maxmemory-policy to noeviction, or see WithEviction")
	ErrCluster = errors.New("the cluster is down, or no node serves the slot of the keys: " +
		"see CLUSTER INFO, and wait or repair it")
	ErrNoCluster = errors.New("the URL has several addresses, but the server is not a cluster: " +
		"remove addr, or for Sentinels add master_set with the primary's name")
	ErrSentinel = errors.New("the Sentinels do not name a primary: " +
		"master_set in the URL must be the primary's name, and the addresses those of the Sentinels")
	ErrDatabase   = errors.New("the server has no such database: use a lower number, or none in a cluster")
	ErrForeignKey = errors.New("the key holds a foreign value: " +
		"delete it, or choose another WithApplication or WithAddress")
	ErrRefused = errors.New("the server refuses the command")

	// ErrURL is returned by Open for an invalid URL. The error says what the problem is, but contains no part of the URL,
	// which may be secret.
	ErrURL = errors.New("redis: URL is not valid")
	// ErrApplication is returned by Open if WithApplication is missing, or if the name cannot be part of a key.
	ErrApplication = errors.New("redis: WithApplication must name the bot")
	// ErrClosed is the error of calls after Close, and of requests whose manager still uses the store after Close. It
	// matches shared.ErrClosed.
	ErrClosed = fmt.Errorf("redis: Close was called: %w", shared.ErrClosed)
)

// Error says why the server cannot be used, or why one call failed.
type Error struct {
	// Problem is one of the errors of this package. It says what is wrong and what to do.
	Problem error
	// Command is the command that was refused, in lower case, empty if there is none.
	Command string
	// Key is the key, channel or pattern that the error is about, empty if there is none.
	Key string
	// Cause is the error of the server or the client, nil if there is none.
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

// classes are the results of Class, by Problem.
var classes = map[error]string{
	ErrUnreachable:    "unreachable",
	ErrTLS:            "tls",
	ErrProtocol:       "protocol",
	ErrAuthentication: "authentication",
	ErrPermission:     "permission",
	ErrProtectedMode:  "protected-mode",
	ErrLoading:        "loading",
	ErrReadOnly:       "read-only",
	ErrScripts:        "scripts",
	ErrTooOld:         "too-old",
	ErrMemory:         "memory",
	ErrEviction:       "eviction",
	ErrCluster:        "cluster",
	ErrNoCluster:      "no-cluster",
	ErrSentinel:       "sentinel",
	ErrDatabase:       "database",
	ErrForeignKey:     "foreign-key",
	ErrRefused:        "refused",
}

// Class returns one word that says what is wrong, for metrics and status pages: for example "unreachable",
// "authentication" or "read-only". Each Problem has a word of its own.
func (e *Error) Class() string { return classes[e.Problem] }

// answers maps parts of the error messages of servers to problems. The first match counts.
var answers = []struct {
	part    string
	problem error
}{
	{"NOAUTH", ErrAuthentication},
	{"WRONGPASS", ErrAuthentication},
	{"invalid password", ErrAuthentication},                // Redis 5
	{"without any password configured", ErrAuthentication}, // the URL has a password, but the server needs none
	{"NOPERM", ErrPermission},                              // outside scripts
	{"The user executing the script can't", ErrPermission}, // in scripts, Redis 7.0
	{"ACL failure in script", ErrPermission},               // in scripts, after Redis 7.0
	{"DENIED", ErrProtectedMode},
	{"LOADING", ErrLoading},
	{"READONLY", ErrReadOnly},
	{"MASTERDOWN", ErrReadOnly}, // a replica that cannot reach its primary
	{"OOM ", ErrMemory},
	{"CLUSTERDOWN", ErrCluster},
	{"cluster support disabled", ErrNoCluster},
	{"unknown command 'CLUSTER'", ErrNoCluster}, // Sentinels
	{"unknown command `CLUSTER`", ErrNoCluster},
	{"TRYAGAIN", ErrCluster},                  // the slot is being moved
	{"MOVED ", ErrCluster},                    // redirected more often than maxMoved
	{"non deterministic commands", ErrTooOld}, // Redis 4: TIME before a write
	{"DB index is out of range", ErrDatabase},
	{"invalid DB index", ErrDatabase},
	{"SELECT is not allowed in cluster mode", ErrDatabase},
	{"WRONGTYPE", ErrForeignKey},
	{"unknown command 'EVAL", ErrScripts},
	{"unknown command `EVAL", ErrScripts},
	{"Unknown Redis command called from script", ErrRefused},
}

// problem returns the problem that a server's error message is about.
func problem(said string) error {
	for _, a := range answers {
		if strings.Contains(said, a.part) {
			return a.problem
		}
	}
	return ErrRefused
}

// command matches the name of the command that was refused in a server's error message.
var command = regexp.MustCompile(`'([a-z|_-]+)'`)

// explain returns an *Error for an error of the client, so that users learn what to do. If the client is closed,
// explain returns ErrClosed.
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

// place matches the script and the line in a server's error message.
var place = regexp.MustCompile(` ?script: [0-9a-f]{40}, on @user_script:(\d+)\.?`)

// answer is a server's error message without the script and the line, because they do not help the reader.
type answer struct {
	error
	text string
}

func (a answer) Error() string { return a.text }
func (a answer) Unwrap() error { return a.error }

// calls matches the commands in the source of a script.
var calls = regexp.MustCompile(`redis\.p?call\('([A-Za-z]+)'`)

// refusedCommand returns the command of a script that the server has refused, for Redis 7.0, which reports only the
// line of the command. If the line contains different commands, the result is "".
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

// connectionProblem does what the function explain does, for errors that do not come from the server.
func connectionProblem(err error) error {
	late := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	var handshake handshakeError
	switch {
	case errors.As(err, &handshake) && late:
		// A Redis port without TLS takes the first bytes of the handshake for the beginning of a command, and waits for more.
		return &Error{Problem: ErrUnreachable, Cause: errors.New("no answer to a TLS handshake: is the port a TLS port?")}
	case errors.As(err, &handshake):
		return &Error{Problem: ErrTLS, Cause: err}
	}
	if strings.Contains(err.Error(), "unknown message type") {
		return &Error{Problem: ErrProtocol, Cause: err}
	}
	// The connection may have been made for another call with another context, so the error says nothing about this
	// context.
	if late {
		err = errors.New("timeout while connecting")
	}
	return &Error{Problem: ErrUnreachable, Cause: err}
}
