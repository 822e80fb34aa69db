package jobs_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/jobs"
	"github.com/ratelight/ratelight/httpclient/rest"
)

// A channel accepts five messages in five seconds, and a job waits for a second at most. So the sixth job is snoozed.
func Example() {
	fake := discordtest.NewServer(nil, discordtest.Window("create_message", 5, 5*time.Second))
	defer fake.Close()
	// Without this option, the client would send to the real Discord.
	discord := rest.New("token", rest.WithTransport(httpclient.WithBase(fake.Client().Transport)))
	defer discord.Close()
	policy, err := jobs.New(jobs.WithMaxWait(time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}

	for id := range 6 {
		message := jobs.WithNonce(map[string]string{"content": "hello"}, jobs.Nonce("my queue", fmt.Sprint(id)))
		err := discord.DoJSON(policy.Context(context.Background()), http.MethodPost, "/channels/1/messages", message, nil)
		switch d := policy.Decide(err); d.Action {
		case jobs.Snooze:
			fmt.Println(id, "comes back later:", d.After > 3*time.Second)
		default:
			fmt.Println(id, d.Action)
		}
	}
	// Output:
	// 0 done
	// 1 done
	// 2 done
	// 3 done
	// 4 done
	// 5 comes back later: true
}
