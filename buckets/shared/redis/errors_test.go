package redis

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets/shared"
)

// When Redis 7.0 refuses a command of a script, its error names only the line of the command. If that line contains
// several commands, our error must name no command.
func TestErrorNamesNoCommandIfTheLineHasSeveral(t *testing.T) {
	t.Parallel()
	for line, command := range map[string]string{
		"redis.call('SET', KEYS[1], 1)":                                        "set",
		"if redis.call('get', KEYS[1]) then redis.pcall('GET', KEYS[2]) end":   "get",
		"if redis.call('GET', KEYS[1]) then redis.call('SET', KEYS[1], 1) end": "",
	} {
		said := "script: 0123456789012345678901234567890123456789, on @user_script:2."
		assert.Equal(t, command, refusedCommand("local x\n"+line, said), line)
	}
}

func TestEachProblemHasItsOwnClass(t *testing.T) {
	t.Parallel()
	all := []error{
		ErrUnreachable, ErrTLS, ErrProtocol, ErrAuthentication, ErrPermission, ErrProtectedMode, ErrLoading, ErrReadOnly,
		ErrScripts, ErrTooOld, ErrMemory, ErrEviction, ErrCluster, ErrNoCluster, ErrSentinel, ErrDatabase, ErrForeignKey,
		ErrRefused,
	}
	seen := make(map[string]error)
	for _, problem := range all {
		class := shared.ErrorClass(fmt.Errorf("call: %w", &Error{Problem: problem, Cause: errors.New("details")}))
		assert.Regexp(t, "^[a-z-]+$", class)
		assert.Nil(t, seen[class], class)
		seen[class] = problem
	}
	for _, a := range answers {
		assert.Contains(t, all, a.problem)
	}
}
