package discordtest_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
)

// This is an example of a test in virtual time. A hundred people join at once, and Discord allows five messages in five
// seconds. Therefore the messages take up to a hundred seconds of virtual time, but almost no real time.
func TestWelcomeToAHundredPeople(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := discordtest.NewServer(t,
			discordtest.Window("POST /channels/{id}/messages", 5, 5*time.Second),
			discordtest.Latency(100*time.Millisecond))
		transport := httpclient.NewTransport(httpclient.WithBase(server.Client().Transport))
		defer transport.Close()
		client := &http.Client{Transport: transport}

		began := time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if err := Welcome(client, "1", "somebody"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > 100*time.Second {
			t.Errorf("it took %v, which is too long", took)
		}
		if refused := server.Refused(); len(refused) > 0 {
			t.Errorf("the transport sent requests that were refused: %v", refused)
		}
	})
}
