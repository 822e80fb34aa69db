package shared_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The session of the discovery stays alive, but its request has no outcome.
func TestPermissionEndsThoughItsSessionLives(t *testing.T) {
	for _, visitors := range []bool{false, true} {
		onStage(t, func(f *stage) {
			a, b := f.finder(), f.finder()
			defer a.session.Close()
			defer b.session.Close()
			f.senderOf(a.session, 50).send(1)
			go f.senderOf(a.session, 50).sendEvenly(30*time.Second, 500*ms)
			a.ask()
			time.Sleep(time.Second)
			assert.True(t, a.may())
			b.ask()
			if visitors {
				go func() {
					for range 6 {
						time.Sleep(2 * time.Second)
						c := f.finder()
						c.ask()
						time.Sleep(ms)
						defer c.session.Close()
					}
				}()
			}
			took := f.until(time.Minute, b.may)
			assert.Less(t, took, 14*time.Second)
			time.Sleep(20 * time.Second)
		})
	}
}
