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
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/buckets/shared/redis"
	"github.com/ratelight/ratelight/httpclient"
)

// childVariable is the environment variable that makes this program a child. Its value is an [assignment] in JSON.
const childVariable = "RATELIGHT_BENCH_CHILD"

// assignment is the configuration of a child.
type assignment struct {
	Discord     string // base URL of the simulator
	Engine      string // URL of the engine
	Application string // name under which limits are shared
}

// maxRateLimit is longer than any wait here, so that no request is rejected.
const maxRateLimit = time.Hour

// child runs the program in a child: a proxy with its own transport. It writes its address, and forwards requests until
// the input ends. Then it writes its calls to the engine.
func child(stdin io.Reader, stdout io.Writer) error {
	var a assignment
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &a); err != nil {
		return fmt.Errorf("%s: %w", childVariable, err)
	}
	discord, err := url.Parse(a.Discord)
	if err != nil {
		return err
	}
	store, err := redis.Open(context.Background(), a.Engine, redis.WithApplication(a.Application), redis.WithEviction(), redis.WithLogger(nil))
	if err != nil {
		return err
	}
	defer store.Close()
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConns, base.MaxIdleConnsPerHost = 0, 1000
	transport := httpclient.NewTransport(
		httpclient.WithBase(base), httpclient.WithRetries(0), httpclient.WithMaxRateLimit(maxRateLimit),
		// Limit every host: the simulator stands in for Discord.
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
	go func() { _ = server.Serve(listener) }() // until it is closed
	said := json.NewEncoder(stdout)
	if err := said.Encode(listener.Addr().String()); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, stdin)
	_ = said.Encode(calls(transport)) // before Close returns leases: no request causes those calls
	return errors.Join(transport.Close(), server.Close())
}

// calls returns the sum of the calls to the engine.
func calls(transport *httpclient.Transport) (all shared.Calls) {
	for _, c := range transport.Manager().Stats().Shared.Calls {
		all.Calls, all.Time = all.Calls+c.Calls, all.Time+c.Time
	}
	return all
}

// process is a child as its parent sees it.
type process struct {
	address string
	in      io.Closer
	kill    func() error
	exited  chan struct{}
	wanted  atomic.Bool  // the parent wants it to end
	calls   shared.Calls // to the engine, known when it has exited; zero if it was killed
}

const (
	// readyWithin is how long a process may take until it is ready.
	readyWithin = 20 * time.Second
	// endWithin is how long a process may take to end before it is killed.
	endWithin = 5 * time.Second
)

// launch starts a process, and returns when it is ready. failed is called if it ends by itself afterwards.
func launch(number int, a assignment, failed func(error)) (*process, error) {
	described, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to start it again: %w", err)
	}
	command := exec.Command(executable)
	command.Env = append(os.Environ(), childVariable+"="+string(described))
	var complaint bytes.Buffer
	command.Stderr = &complaint
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &process{in: in, kill: command.Process.Kill, exited: make(chan struct{})}
	late := time.AfterFunc(readyWithin, func() { _ = p.kill() })
	said := json.NewDecoder(out)
	if wrong := said.Decode(&p.address); !late.Stop() || wrong != nil {
		_ = p.kill()
		return nil, fmt.Errorf("process %d is not ready: %w: %s", number+1, errors.Join(wrong, command.Wait()), strings.TrimSpace(complaint.String()))
	}
	go func() {
		_ = said.Decode(&p.calls)
		err := command.Wait()
		close(p.exited)
		if !p.wanted.Load() {
			failed(fmt.Errorf("process %d ended early: %w: %s", number+1, err, strings.TrimSpace(complaint.String())))
		}
	}()
	return p, nil
}

// end asks the process to end, and kills it if it does not.
func (p *process) end() {
	p.wanted.Store(true)
	_ = p.in.Close()
	select {
	case <-p.exited:
	case <-time.After(endWithin):
		_ = p.kill() // it may be gone already
		<-p.exited
	}
}
