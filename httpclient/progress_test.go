package httpclient_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

func TestAResponseMayTakeLongerThanTheTimeOfAnAttemptWhileItMoves(t *testing.T) {
	t.Parallel()
	for pause, ok := range map[time.Duration]bool{14 * time.Second: true, 16 * time.Second: false} {
		inBubble(t, pause.String(), func(t *testing.T) {
			below := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				for range 10 {
					_, _ = io.WriteString(w, "a")
					w.(http.Flusher).Flush()
					select {
					case <-time.After(pause):
					case <-r.Context().Done():
						return
					}
				}
			})
			start := time.Now()
			response := roundTrip(t, newTransport(t, below), newMessage(t))
			content, err := io.ReadAll(response.Body)
			require.NoError(t, response.Body.Close())
			if ok {
				require.NoError(t, err)
				assert.Equal(t, strings.Repeat("a", 10), string(content))
				assert.Equal(t, 10*pause, time.Since(start))
				return
			}
			assertAttemptTimeout(t, 15*time.Second, err)
			assert.Equal(t, "a", string(content))
			assert.Equal(t, 15*time.Second, time.Since(start))
		})
	}
}

// The timeout counts only while a read waits. A caller that pauses for hours between two reads must not be cut off.
func TestAResponseThatNobodyReadsIsNotCutOff(t *testing.T) {
	t.Parallel()
	pauses := []time.Duration{0, time.Second, 14 * time.Second, 15 * time.Second, 16 * time.Second, 31 * time.Second,
		20 * time.Minute}
	for parent, ctx := range parents {
		inBubble(t, parent, func(t *testing.T) {
			for _, pause := range pauses {
				if parent == "with a deadline" && pause > time.Minute {
					continue
				}
				ctx := ctx(t)
				below := newServer(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, "begin")
					w.(http.Flusher).Flush()
					_, _ = io.WriteString(w, "end")
					w.(http.Flusher).Flush()
					<-r.Context().Done()
				})
				response := roundTrip(t, newTransport(t, below), newMessage(t).WithContext(ctx))
				for _, want := range []string{"begin", "end"} {
					time.Sleep(pause)
					p := make([]byte, len(want))
					_, err := io.ReadFull(response.Body, p)
					require.NoError(t, err, "after %v", pause)
					assert.Equal(t, want, string(p))
				}
				time.Sleep(pause)
				start := time.Now()
				_, err := response.Body.Read(make([]byte, 1)) // this byte never comes
				assertAttemptTimeout(t, 15*time.Second, err)
				assert.Equal(t, 15*time.Second, time.Since(start), "after %v", pause)
				require.NoError(t, response.Body.Close())
			}
		})
	}
}

// A server may respond before it has the whole body. The caller does not wait for the rest of the upload, so the
// timeout must not count then.
func TestAnUploadThatGoesOnAfterTheResponseStartsNoTime(t *testing.T) {
	forEachParent(t, func(t *testing.T, parent context.Context) {
		source, writer := io.Pipe()
		go func() {
			for range 3 {
				_, _ = writer.Write([]byte("piece"))
				time.Sleep(10 * time.Second)
			}
			writer.Close()
		}()
		below := responder(func(r *http.Request) (*http.Response, error) {
			go func() {
				defer r.Body.Close()
				_, _ = io.Copy(io.Discard, r.Body)
			}()
			body := &fitful{context: r.Context(), waits: []time.Duration{time.Second, 20 * time.Second}}
			return answerWith(http.StatusOK, func() io.ReadCloser { return body })(r)
		})
		transport := newTransport(t, below)
		response := roundTrip(t, transport, unreplayable(newMessage(t), source, 2<<20).WithContext(parent))
		time.Sleep(20 * time.Minute)
		_, err := response.Body.Read(make([]byte, 1))
		require.NoError(t, err)
		_, err = response.Body.Read(make([]byte, 1))
		assertAttemptTimeout(t, 15*time.Second, err)
		require.NoError(t, response.Body.Close())
	})
}

// The caller may call Close while a Read in another goroutine waits.
func TestClosingAResponseEndsItsReading(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newServer(t, func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		transport := newTransport(t, below)
		for _, pause := range []time.Duration{0, time.Second, 15 * time.Second, time.Minute} {
			response := roundTrip(t, transport, newMessage(t))
			time.Sleep(pause)
			var reading sync.WaitGroup
			reading.Go(func() {
				_, err := io.ReadAll(response.Body)
				assert.Error(t, err)
				assert.NotErrorAs(t, err, new(*httpclient.AttemptTimeoutError))
			})
			synctest.Wait()
			time.Sleep(time.Second)
			assert.NoError(t, response.Body.Close())
			reading.Wait()
		}
	})
}

// In each attempt bytes arrive and reads begin at random times. The attempt must time out exactly when one read waits
// longer than the timeout.
func TestEachAttemptIsCutOffExactlyWhenItHasWaitedTooLong(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			transport := newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
				body := &fitful{context: r.Context(), waits: r.Context().Value(fitfulKey{}).([]time.Duration)}
				return answerWith(http.StatusOK, func() io.ReadCloser { return body })(r)
			}))
			var all sync.WaitGroup
			for i := range 50 {
				var waits, pauses []time.Duration
				for range 1 + random.IntN(6) {
					waits = append(waits, time.Duration(random.Int64N(int64(6*time.Second))*(1+random.Int64N(2))))
					pauses = append(pauses, time.Duration(random.Int64N(int64(25*time.Second))))
				}
				allowed := 10 * time.Second
				all.Go(func() {
					time.Sleep(time.Duration(i) * 137 * time.Millisecond)
					ctx := httpclient.ContextWithAttemptTimeout(context.WithValue(context.Background(), fitfulKey{}, waits), allowed)
					path := fmt.Sprintf("/api/v10/interactions/%d/token/callback", 1000+i)
					response, err := transport.RoundTrip(newRequest(t, http.MethodPost, path, "{}").WithContext(ctx))
					if !assert.NoError(t, err) {
						return
					}
					defer response.Body.Close()
					for k, wait := range waits {
						time.Sleep(pauses[k])
						start := time.Now()
						_, err := response.Body.Read(make([]byte, 1))
						assert.Equal(t, min(wait, allowed), time.Since(start))
						if wait >= allowed {
							assert.ErrorAs(t, err, new(*httpclient.AttemptTimeoutError))
							return
						}
						assert.NoError(t, err)
					}
				})
			}
			all.Wait()
		})
	}
}

type fitfulKey struct{}

// fitful is a body in which one byte comes after each wait.
type fitful struct {
	context context.Context
	waits   []time.Duration
}

func (f *fitful) Read(p []byte) (int, error) {
	if len(f.waits) == 0 {
		return 0, io.EOF
	}
	wait := f.waits[0]
	f.waits = f.waits[1:]
	if wait >= 10*time.Second { // otherwise the byte and the timeout could come at the same instant
		wait += time.Second
	}
	select {
	case <-time.After(wait):
		return 1, nil
	case <-f.context.Done():
		return 0, f.context.Err()
	}
}

func (f *fitful) Close() error { return nil }
