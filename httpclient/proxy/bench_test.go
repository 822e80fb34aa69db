//go:build unix

package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/proxy"
)

// ways returns the base URLs of three ways to a server on this machine: direct, through a reverse proxy of the standard
// library without limits, and through the proxy of this package. The server's buckets are never used up.
func ways(b *testing.B) (urls map[string]string) {
	discord := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h := w.Header()
		h["X-Ratelimit-Limit"], h["X-Ratelimit-Remaining"] = []string{"1000000"}, []string{"999999"}
		h["X-Ratelimit-Reset-After"], h["X-Ratelimit-Bucket"] = []string{"1.000"}, []string{"bench"}
		h["Content-Type"] = []string{"application/json"}
		_, _ = io.WriteString(w, `{"id":"1"}`)
	}))
	b.Cleanup(discord.Close)
	upstream, err := url.Parse(discord.URL)
	if err != nil {
		b.Fatal(err)
	}
	bare := httputil.NewSingleHostReverseProxy(upstream)
	bare.Transport = &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true}
	bareServer := httptest.NewServer(bare)
	b.Cleanup(func() {
		bareServer.Close()
		bare.Transport.(*http.Transport).CloseIdleConnections()
	})
	handler, err := proxy.New(proxy.WithUpstream(discord.URL),
		proxy.WithTransport(httpclient.WithBuckets(buckets.WithGlobalLimit(0))))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { handler.Close() })
	server := httptest.NewServer(handler)
	b.Cleanup(server.Close)
	return map[string]string{"direct": discord.URL, "bare": bareServer.URL, "proxy": server.URL}
}

func post(b *testing.B, client *http.Client, base string, channel int) {
	r, err := http.NewRequest("POST", base+"/api/v10/channels/"+strconv.Itoa(channel)+"/messages", http.NoBody)
	if err != nil {
		b.Error(err)
		return
	}
	r.Header.Set("Authorization", token)
	response, err := client.Do(r)
	if err != nil {
		b.Error(err)
		return
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		b.Error(response.Status)
	}
}

func newClient(b *testing.B) *http.Client {
	base := &http.Transport{MaxIdleConnsPerHost: 512}
	b.Cleanup(base.CloseIdleConnections)
	return &http.Client{Transport: base}
}

// BenchmarkLatency sends a thousand requests a second. The ways to the server take turns, each for a tenth of a second.
// For each of the two proxies, the benchmark reports how much longer a request takes through the proxy than directly.
func BenchmarkLatency(b *testing.B) {
	const turn = 100 // requests
	urls := ways(b)
	names := []string{"direct", "bare", "proxy"}
	took := make(map[string][]time.Duration)
	var mu sync.Mutex
	var all sync.WaitGroup
	client := newClient(b)
	for i := range 300 {
		for _, name := range names {
			post(b, client, urls[name], i%100) // opens connections and lets the proxy learn the buckets
		}
	}
	start := time.Now()
	b.ResetTimer()
	for i := range b.N {
		time.Sleep(time.Until(start.Add(time.Duration(i) * time.Millisecond)))
		all.Go(func() {
			name, sent := names[i/turn%len(names)], time.Now()
			post(b, client, urls[name], i%100)
			d := time.Since(sent)
			mu.Lock()
			defer mu.Unlock()
			took[name] = append(took[name], d)
		})
	}
	all.Wait()
	b.StopTimer()
	quantile := func(name string, q float64) float64 {
		all := took[name]
		slices.Sort(all)
		return float64(all[min(int(q*float64(len(all))), len(all)-1)].Microseconds())
	}
	if b.N < turn*len(names) {
		return
	}
	for _, name := range names[1:] {
		b.ReportMetric(quantile(name, 0.5)-quantile("direct", 0.5), name+"-p50-µs-added")
		b.ReportMetric(quantile(name, 0.99)-quantile("direct", 0.99), name+"-p99-µs-added")
	}
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkThroughput sends requests from 32 goroutines as fast as it can. For each of the three ways to the server
// (see the function ways), it reports the CPU time per request. For each proxy it also reports requests/s/core: how
// many requests a second the proxy could forward on one core, computed from the CPU time that the proxy adds.
func BenchmarkThroughput(b *testing.B) {
	urls, client := ways(b), newClient(b)
	cost := make(map[string]float64)
	for _, name := range []string{"direct", "bare", "proxy"} {
		b.Run(name, func(b *testing.B) {
			for i := range 100 {
				post(b, client, urls[name], i)
			}
			var all sync.WaitGroup
			next := make(chan int)
			runtime.GC()
			before := cpuTime()
			b.ResetTimer()
			for range 32 {
				all.Go(func() {
					for i := range next {
						post(b, client, urls[name], i%100)
					}
				})
			}
			for i := range b.N {
				next <- i
			}
			close(next)
			all.Wait()
			b.StopTimer()
			cost[name] = float64(cpuTime()-before) / float64(b.N)
			b.ReportMetric(cost[name]/1000, "cpu-µs/op")
			if added := cost[name] - cost["direct"]; name != "direct" && added > 0 {
				b.ReportMetric(1e9/added, "requests/s/core")
			}
		})
	}
}
