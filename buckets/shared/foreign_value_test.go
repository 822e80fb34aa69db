package shared_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
)

// A value that another program or another version has stored at a key is not replaced, even if it begins with a
// version.
func TestForeignValuesStay(t *testing.T) {
	for _, value := range []string{"mine", "mine 1", "1.1 mine"} {
		for key, use := range map[string]func(f *stage, session shared.Session){
			"d:bot:" + route: func(f *stage, session shared.Session) { f.finderOf(session).ask() },
			"i":              func(_ *stage, session shared.Session) { session.Invalid() },
			"g:bot":          func(f *stage, session shared.Session) { f.senderOf(session, 50).send(1) },
			"b:bot/hash/": func(f *stage, session shared.Session) {
				b := session.Bucket(shared.Key{Credential: "bot", Hash: "hash"}, new(ratelimits.Window), func() {})
				b.Demand(f.now(), 1, slices.Values([]time.Duration{f.now()}))
			},
		} {
			t.Run(key+" "+value, func(t *testing.T) {
				onStage(t, func(f *stage) {
					key := "rl2:{default}:" + key
					f.memory.Set(key, value)
					session := f.join()
					use(f, session)
					time.Sleep(5 * time.Second)
					assert.Equal(t, value, f.memory.Value(key))
					session.Close()
					assert.Equal(t, value, f.memory.Value(key))
				})
			})
		}
	}
}
