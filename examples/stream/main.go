// Command stream shows the words of its input in one message, as the words arrive. If several edits wait, only the
// latest is sent:
//
//	some-model | TOKEN=… CHANNEL=… go run ./stream
package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"sync"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/rest"
	"github.com/ratelight/ratelight/ratelimits"
)

const longest = 2000 // bytes, so that a message has at most the 2000 characters that Discord allows

type message struct {
	ID      string `json:"id,omitempty"`
	Content string `json:"content"`
}

func main() {
	client := rest.New("Bot " + os.Getenv("TOKEN"))
	defer client.Close()
	if err := stream(context.Background(), client, os.Getenv("CHANNEL"), os.Stdin); err != nil {
		log.Fatal(httpclient.Redact(err))
	}
}

func stream(ctx context.Context, client *rest.Client, channel string, input io.Reader) error {
	var shown message
	path := "/channels/" + channel + "/messages"
	if err := client.DoJSON(ctx, http.MethodPost, path, message{Content: "…"}, &shown); err != nil {
		return err
	}
	latest := httpclient.ContextWithLatest(ctx)
	edit := func(text string) error {
		return client.DoJSON(latest, http.MethodPatch, path+"/"+shown.ID, message{Content: text}, nil)
	}
	words := bufio.NewScanner(input)
	words.Split(bufio.ScanWords)
	text := ""
	var edits sync.WaitGroup
	for words.Scan() {
		if len(text)+len(words.Text()) >= longest {
			break
		}
		text += words.Text() + " "
		now := text
		edits.Go(func() {
			var superseded *ratelimits.SupersededError // a newer edit has taken the place of this one
			if err := edit(now); err != nil && !errors.As(err, &superseded) {
				log.Print(httpclient.Redact(err))
			}
		})
	}
	edits.Wait()
	if text != "" { // earlier edits may have arrived in any order, so send the whole text at the end
		if err := edit(text); err != nil {
			return err
		}
	}
	return words.Err()
}
