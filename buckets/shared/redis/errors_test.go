package redis

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets/shared"
)

func TestEachProblemHasItsOwnClass(t *testing.T) {
	t.Parallel()
	all := []error{
		ErrUnreachable, ErrTLS, ErrProtocol, ErrAuthentication, ErrPermission, ErrProtectedMode, ErrLoading, ErrReadOnly, ErrScripts, ErrTooOld,
		ErrMemory, ErrEviction, ErrCluster, ErrNoCluster, ErrSentinel, ErrDatabase, ErrForeignKey, ErrRefused,
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
