package limitertest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/limitertest"
)

func TestOnlyLeavesOutAllOtherCases(t *testing.T) {
	made := make(chan string, 1000)
	t.Run("suite", func(t *testing.T) {
		limitertest.Core(t, func(t *testing.T) httpclient.Limiter {
			made <- t.Name()
			return managers(buckets.WithGlobalLimit(0))(t)
		}, limitertest.WithGlobalLimit(0), limitertest.Only("arguments/no route", "close/"))
	})
	close(made)
	n := 0
	for name := range made {
		assert.Regexp(t, "/suite/(arguments/no_route|close/)", name)
		n++
	}
	assert.Positive(t, n)
}
