package processes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// ChildVariable is the environment variable that makes this program a child. Its value does not matter.
const ChildVariable = "RATELIGHT_BENCH_CHILD"

const (
	// authorization is the credential of all requests.
	authorization = "Bot simulated"
	// maxRateLimit is longer than anything waits here.
	maxRateLimit = time.Hour
)

// Child is the whole program in a child: it does what its parent says until that wants the end. The error is about a parent that
// does not speak as it should, or is gone.
func Child(stdin io.Reader, stdout io.Writer) error {
	c := &child{out: &lines{w: stdout}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := false
	err := read(stdin, func(line command) {
		switch {
		case line.Work != nil && c.client == nil:
			if err := c.open(ctx, *line.Work); err != nil {
				_ = c.out.write(message{Failed: err.Error()}) // nobody is there who could be told of it
				return
			}
			_ = c.out.write(message{Ready: true})
		case line.Start != 0 && c.client != nil && c.start.IsZero():
			// The machine's clock says when, and the monotonic one counts from there.
			c.start = time.Now().Add(time.Until(time.Unix(0, line.Start)))
			c.busy.Go(func() { c.run(ctx) })
		case line.End:
			ended = true
			cancel()
			c.close()
		}
	})
	if !ended {
		cancel()
		c.close()
		return errors.Join(errors.New("the parent is gone"), err)
	}
	return err
}

// child is a process under way.
type child struct {
	out  *lines
	work assignment

	client *http.Client // nil until it is opened
	stop   func()
	start  time.Time
	busy   sync.WaitGroup
	latest atomic.Int64
}

// open makes the transport, on top of what is shared.
func (c *child) open(ctx context.Context, work assignment) error {
	options, unshare, err := share(ctx, work)
	if err != nil {
		return err
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConns, base.MaxIdleConnsPerHost = 0, 1000
	transport := httpclient.NewTransport(
		httpclient.WithBase(below{c, base}), httpclient.WithRetries(0), httpclient.WithMaxRateLimit(maxRateLimit),
		httpclient.WithHosts(func(string) bool { return true }), // all is sent to the simulator, which stands in for Discord
		httpclient.WithServer(func(string) string { return "" }),
		httpclient.WithBuckets(buckets.WithLogger(nil), buckets.WithGlobalLimit(0)), httpclient.WithBuckets(options...),
	)
	c.work, c.client = work, &http.Client{Transport: transport}
	c.stop = func() {
		_ = transport.Close() // its error is always nil
		base.CloseIdleConnections()
		unshare()
	}
	return nil
}

// close gives up what waits and ends what was opened.
func (c *child) close() {
	c.busy.Wait()
	if c.stop != nil {
		c.stop()
	}
}

// run makes all requests and says when they have an outcome.
func (c *child) run(ctx context.Context) {
	var group sync.WaitGroup
	for _, caller := range c.work.Work.Callers {
		group.Go(func() { c.call(ctx, caller) })
	}
	for _, offer := range c.work.Work.Offers {
		if load.Pause(ctx, time.Until(c.start.Add(offer.At))) != nil {
			break
		}
		group.Go(func() { c.request(ctx, offer.Bucket) })
	}
	group.Wait()
	_ = c.out.write(message{Done: true})
}

func (c *child) call(ctx context.Context, caller Caller) {
	if load.Pause(ctx, time.Until(c.start.Add(caller.At))) != nil {
		return
	}
	for n := 0; (caller.Count == 0 || n < caller.Count) && ctx.Err() == nil; n++ {
		if !c.request(ctx, caller.Bucket) && load.Pause(ctx, afterFailure) != nil {
			return
		}
	}
}

// afterFailure keeps callers from asking over and over again for what is refused at once.
const afterFailure = 100 * time.Millisecond

// request makes a request and says what came of it.
func (c *child) request(ctx context.Context, bucket int) (answered bool) {
	record := &Record{
		Sequence: int64(c.work.Process)*requestsEach + c.latest.Add(1), Bucket: bucket, Arrived: time.Since(c.start),
	}
	status, err := c.roundTrip(context.WithValue(ctx, recordKey{}, record), record)
	record.Done, record.Status = time.Since(c.start), status
	if err != nil {
		record.Error, record.GivenUp = err.Error(), ctx.Err() != nil
	}
	_ = c.out.write(message{Request: record})
	return record.answered()
}

func (c *child) roundTrip(ctx context.Context, record *Record) (status int, err error) {
	url := fmt.Sprintf("%s/api/v10/channels/%d/messages", c.work.Discord, 900_000_000_000_000_000+record.Bucket)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"content":"hello"}`))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", authorization)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(discordsim.SequenceHeader, strconv.FormatInt(record.Sequence, 10))
	response, err := c.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

type recordKey struct{}

// below is under the transport and notes when a request is really sent.
type below struct {
	child *child
	base  http.RoundTripper
}

func (b below) RoundTrip(request *http.Request) (*http.Response, error) {
	send := Send{At: time.Since(b.child.start)}
	response, err := b.base.RoundTrip(request)
	send.Back = time.Since(b.child.start)
	if response != nil {
		send.Status = response.StatusCode
	}
	if record, ok := request.Context().Value(recordKey{}).(*Record); ok {
		record.Sends = append(record.Sends, send)
	}
	return response, err
}
