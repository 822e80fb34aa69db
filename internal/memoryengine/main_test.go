package memoryengine_test

import (
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/internal/enginetest"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func bubble(t *testing.T, test func(t *testing.T, e *memoryengine.Engine)) {
	synctest.Test(t, func(t *testing.T) {
		e := memoryengine.New()
		defer e.Close()
		test(t, e)
	})
}

func TestEngineConforms(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, test func(*testing.T, enginetest.Engine)) {
		bubble(t, func(t *testing.T, e *memoryengine.Engine) { test(t, e) })
	})
}
