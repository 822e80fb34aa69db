package statefile_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/statefile"
)

func ExampleOpen() {
	directory, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(directory)
	discord := discordtest.NewServer(nil, discordtest.Window("create_message", 2, time.Minute))
	defer discord.Close()

	for process := range 2 {
		transport := httpclient.NewTransport(httpclient.WithBase(discord.Client().Transport),
			httpclient.WithMaxRateLimit(time.Second))
		file, err := statefile.Open(filepath.Join(directory, "limits"), transport)
		if err != nil {
			panic(err)
		}
		client := &http.Client{Transport: transport}
		for range 2 {
			response, err := client.Post("https://discord.com/api/v10/channels/1/messages", "application/json", nil)
			if err != nil {
				fmt.Println("process", process, "sends nothing: the window is not over")
				break
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			fmt.Println("process", process, "sends, and is answered with", response.StatusCode)
		}
		if err := file.Close(); err != nil { // also closes the transport
			panic(err)
		}
	}
	fmt.Println("refused:", len(discord.Refused()))
	// Output:
	// process 0 sends, and is answered with 200
	// process 0 sends, and is answered with 200
	// process 1 sends nothing: the window is not over
	// refused: 0
}
