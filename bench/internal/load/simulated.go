package load

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// authorization is the credential of all simulated requests.
const authorization = "Bot simulated"

// simulation is a simulated Discord that listens.
type simulation struct {
	config    Config
	server    *discordsim.Server
	transport http.RoundTripper
	baseURL   string
}

// listen starts a simulation. The server's seconds, in which the global limit is counted, begin now.
func listen(config Config, trace *Trace) (*simulation, error) {
	s := config.Simulated
	global := discordsim.Unlimited()
	if config.GlobalLimit > 0 {
		phase := time.Duration(time.Now().UnixNano()) % time.Second
		global = discordsim.Aligned(config.GlobalLimit, time.Second, phase)
	}
	simulator := discordsim.Config{
		Rules:   []discordsim.Rule{{Method: http.MethodPost, Path: "/channels/{id}/messages", Quota: s.Quota}},
		Global:  global,
		Latency: s.Latency,
		Seed:    s.Seed,
	}
	trace.Simulator(&simulator)
	server, err := discordsim.New(simulator)
	if err != nil {
		return nil, err
	}
	if config.inProcess {
		return &simulation{config, server, server.RoundTripper(), discordsim.BaseURL}, nil
	}
	baseURL, err := server.Listen()
	if err != nil {
		_ = server.Close() // the reason is err
		return nil, fmt.Errorf("simulated Discord: %w", err)
	}
	return &simulation{config, server, sockets(), baseURL}, nil
}

func (s *simulation) base() http.RoundTripper { return s.transport }

func (s *simulation) request(ctx context.Context, n int) (*http.Request, error) {
	channel := 900_000_000_000_000_000 + n%s.config.Simulated.Channels
	url := fmt.Sprintf("%s/api/v10/channels/%d/messages", s.baseURL, channel)
	body := strings.NewReader(fmt.Sprintf(`{"content":"message %d"}`, n+1))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", authorization)
	request.Header.Set("Content-Type", "application/json")
	return request, nil
}

func (s *simulation) judge() *discordsim.Server { return s.server }

func (s *simulation) close() {
	_ = s.server.Close() // it only breaks connections off
}
