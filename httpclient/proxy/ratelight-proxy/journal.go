package main

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/sparselog"
)

// journal counts the outcomes of the bots' requests. It logs a warning when a request is refused, but at most one
// warning for each reason in 30 seconds. If logAll is true, it also logs every request. The log contains routes, but
// never a path, a query or a header.
type journal struct {
	log    *slog.Logger
	sparse *sparselog.Log
	logAll bool // log each request
	began  time.Time

	mu      sync.Mutex // guards all fields below
	arrived uint64
	served  uint64            // responses of Discord
	failed  uint64            // Discord could not be reached or did not answer in time
	refused map[string]uint64 // other answers of the proxy itself, by reason
}

func newJournal(log *slog.Logger, logAll bool) *journal {
	return &journal{
		log: log, sparse: sparselog.New(log), logAll: logAll, began: time.Now(), refused: make(map[string]uint64),
	}
}

// visit is a request to the proxy, with the transport's event about the outcome of the request.
type visit struct {
	began time.Time
	done  httpclient.DoneEvent // zero until the event
}

type visitKey struct{}

// hooks returns hooks that store the transport's event in the request's visit.
func (j *journal) hooks() httpclient.Hooks {
	return httpclient.Hooks{Done: func(ctx context.Context, e httpclient.DoneEvent) {
		if v, ok := ctx.Value(visitKey{}).(*visit); ok {
			v.done = e
		}
	}}
}

// around returns a handler that counts and logs the outcomes of requests to next.
func (j *journal) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, recorder := &visit{began: time.Now()}, &statusRecorder{ResponseWriter: w}
		j.mu.Lock()
		j.arrived++
		j.mu.Unlock()
		complete := false
		defer func() { j.write(r, v, recorder, complete) }()
		next.ServeHTTP(recorder, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
		complete = true // stays false after a panic, which ends the connection
	})
}

// write counts and logs a request that has ended.
func (j *journal) write(r *http.Request, v *visit, w *statusRecorder, complete bool) {
	reason := w.Header().Get("X-Ratelight-Proxy")
	warns := false
	j.mu.Lock()
	switch {
	case !complete || reason == "client-gone":
	case reason == "":
		j.served++
	case reason == "unreachable" || reason == "timeout":
		j.failed++
	default:
		j.refused[reason]++
		warns = reason != "superseded" // the client has asked for this
	}
	j.mu.Unlock()
	ctx := context.WithoutCancel(r.Context())
	if warns {
		attributes := []slog.Attr{
			slog.String("reason", reason), slog.Int("status", w.status), slog.String("route", v.done.Route),
		}
		if v.done.Err != nil {
			attributes = append(attributes, slog.String("error", v.done.Err.Error()))
		}
		now := time.Since(j.began)
		j.sparse.Write(ctx, now, sparselog.Line{
			Level: slog.LevelWarn, Message: "request refused", Class: reason, Attributes: attributes,
		})
		j.sparse.Flush(now, false)
	}
	if j.logAll {
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		j.log.LogAttrs(ctx, slog.LevelInfo, "request", slog.String("client", client), slog.String("route", v.done.Route),
			slog.String("major", v.done.Major), slog.Int("status", w.status), slog.String("reason", reason),
			slog.Int("attempts", v.done.Attempts), slog.Duration("waited", v.done.Waited),
			slog.Duration("took", time.Since(v.began)), slog.Bool("complete", complete))
	}
}

// end logs the totals of all requests. A request is lost if its client did not get a complete answer.
func (j *journal) end() {
	j.sparse.Flush(time.Since(j.began), true)
	j.mu.Lock()
	defer j.mu.Unlock()
	var refused uint64
	var reasons []any
	for _, reason := range slices.Sorted(maps.Keys(j.refused)) {
		refused += j.refused[reason]
		reasons = append(reasons, slog.Uint64(reason, j.refused[reason]))
	}
	j.log.Info("stopped", "served", j.served, "refused", refused, "failed", j.failed,
		"lost", j.arrived-j.served-refused-j.failed, slog.Group("refused_for", reasons...))
}

// statusRecorder records the status of the response that is written to it.
type statusRecorder struct {
	http.ResponseWriter
	status int // 0 before the response
}

func (r *statusRecorder) WriteHeader(status int) {
	if status >= http.StatusOK { // lower statuses are informational
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *statusRecorder) Write(text []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(text)
}

// Unwrap lets http.ResponseController reach the methods of the wrapped writer.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
