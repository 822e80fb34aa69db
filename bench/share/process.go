package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared/redis"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/redistest"
)

// childVariable is the environment variable that makes this program a child: a proxy with a transport of its own. The
// value is an assignment in JSON. A child writes its address to standard output, and forwards requests until its
// standard input ends, so that no child outlives its parent. At its end the child writes how many calls it made to the
// engine, the Redis or Valkey server.
const childVariable = "RATELIGHT_BENCH_CHILD"

// assignment is the configuration of a child.
type assignment struct {
	Discord string // base URL of the simulator
	Engine  string // URL of the Redis or Valkey server
}

// child is the program of a child.
func child(stdin io.Reader, stdout io.Writer) error {
	var a assignment
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &a); err != nil {
		return fmt.Errorf("%s: %w", childVariable, err)
	}
	discord, err := url.Parse(a.Discord)
	if err != nil {
		return err
	}
	store, err := redis.Open(context.Background(), a.Engine,
		redis.WithApplication("ratelight-bench"), redis.WithEviction(), redis.WithLogger(nil))
	if err != nil {
		return err
	}
	defer store.Close()
	transport := httpclient.NewTransport(
		httpclient.WithBase(&http.Transport{MaxIdleConnsPerHost: 1000}), httpclient.WithMaxRateLimit(time.Hour),
		httpclient.WithAttempts(httpclient.Attempts{Retries: httpclient.NoRetries}),
		// Limit every host, because requests go to the simulator and not to Discord.
		httpclient.WithHosts(func(string) (string, bool) { return "", true }),
		httpclient.WithBuckets(buckets.WithLogger(nil), buckets.WithGlobalLimit(0), buckets.WithShared(store)),
	)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(discord) }, Transport: transport,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}}
	go func() { _ = server.Serve(listener) }() // until the server is closed
	output := json.NewEncoder(stdout)
	if err := output.Encode(listener.Addr().String()); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, stdin)
	var calls int64 // read before Close, which makes calls that no request causes
	for _, c := range transport.Manager().Stats().Shared.Calls {
		calls += int64(c.Calls)
	}
	return errors.Join(output.Encode(calls), transport.Close(), server.Close())
}

// fleet is a client whose requests go through processes that share limits.
type fleet struct {
	processes []*process
	engine    *redistest.Engine
	base      http.Transport
	closing   sync.Once
}

// process is a child as its parent sees it.
type process struct {
	address string
	command *exec.Cmd
	input   io.Closer
	output  *json.Decoder
	stderr  bytes.Buffer
	calls   int64 // number of calls to the engine, known after Close
	err     error // why the process has failed
}

// start starts the engine and the processes.
func start(ctx context.Context, processes int, discord string) (*fleet, error) {
	engine, err := redistest.Start(ctx, redistest.Options{})
	if errors.Is(err, redistest.ErrNotInstalled) {
		return nil, errors.New("there is no server for shared limits: install Redis (redis-server) or Valkey (valkey-server)")
	}
	if err != nil {
		return nil, fmt.Errorf("start a server for shared limits: %w", err)
	}
	f := &fleet{engine: engine, base: http.Transport{MaxIdleConnsPerHost: 1000}}
	for number := range processes {
		p, err := launch(assignment{Discord: discord, Engine: engine.URL()})
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("process %d is not ready: %w", number+1, err)
		}
		f.processes = append(f.processes, p)
	}
	return f, nil
}

// launch starts a process, and returns when it is ready.
func launch(a assignment) (*process, error) {
	configuration, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to start it again: %w", err)
	}
	p := &process{command: exec.Command(executable)}
	p.command.Env = append(os.Environ(), childVariable+"="+string(configuration))
	p.command.Stderr = &p.stderr
	if p.input, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	p.output = json.NewDecoder(output)
	if err := p.output.Decode(&p.address); err != nil {
		p.end()
		return nil, errors.Join(err, p.err)
	}
	return p, nil
}

// end asks the process to end, and kills it if it is still running after 5 s.
func (p *process) end() {
	_ = p.input.Close()
	defer time.AfterFunc(5*time.Second, func() { _ = p.command.Process.Kill() }).Stop()
	_ = p.output.Decode(&p.calls) // calls stays 0 if the process has failed
	if err := p.command.Wait(); err != nil {
		p.err = fmt.Errorf("%w: %s", err, strings.TrimSpace(p.stderr.String()))
	}
}

// RoundTrip makes a request through a process.
func (f *fleet) RoundTrip(process int, request *http.Request) (*http.Response, error) {
	request.URL.Scheme, request.URL.Host = "http", f.processes[process].address
	return f.base.RoundTrip(request)
}

// Close ends all processes, and the engine.
func (f *fleet) Close() {
	f.closing.Do(func() {
		var group sync.WaitGroup
		for _, p := range f.processes {
			group.Go(p.end)
		}
		group.Wait()
		f.base.CloseIdleConnections()
		f.engine.Close()
	})
}

// ended returns how many calls to the engine all processes have made, and why processes have failed. Call ended after
// Close.
func (f *fleet) ended() (calls int64, err error) {
	for _, p := range f.processes {
		calls, err = calls+p.calls, errors.Join(err, p.err)
	}
	return calls, err
}
