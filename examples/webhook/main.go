// Command webhook posts each line of its input to a webhook:
//
//	tail -f app.log | WEBHOOK_URL=https://discord.com/api/webhooks/… go run ./webhook
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

func main() {
	transport := httpclient.NewTransport()
	defer transport.Close()
	client := &http.Client{Transport: transport}
	if err := post(context.Background(), client, os.Getenv("WEBHOOK_URL"), os.Stdin); err != nil {
		log.Fatal(httpclient.Redact(err))
	}
}

// post posts the lines in their order. It leaves out a line that would have to wait for more than a minute. It ends if
// the webhook does not exist.
func post(ctx context.Context, client *http.Client, url string, input io.Reader) error {
	ctx = buckets.ContextWithMaxWait(ctx, time.Minute)
	lines := bufio.NewScanner(input)
	for lines.Scan() {
		if lines.Text() == "" {
			continue
		}
		body, err := json.Marshal(map[string]string{"content": lines.Text()})
		if err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		var tooLong *ratelimits.TooLongError
		switch {
		case errors.As(err, &tooLong):
			log.Printf("left out, because it would have to wait for %v: %s", tooLong.Wait, lines.Text())
			continue
		case err != nil:
			return err
		}
		response.Body.Close()
		if response.StatusCode >= 300 {
			return fmt.Errorf("the webhook answered %s", response.Status)
		}
	}
	return lines.Err()
}
