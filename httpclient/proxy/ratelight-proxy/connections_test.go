package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/discordtest"
)

func dial(t *testing.T, address string) net.Conn {
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	return conn
}

// send sends a request on an HTTP/1 connection and keeps the connection open.
func send(t *testing.T, conn net.Conn) {
	_, err := io.WriteString(conn, "GET /users/@me HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	assert.Equal(t, 200, response.StatusCode)
}

// closed waits until the connection is closed or its deadline passes. It reports whether the connection was closed.
func closed(conn net.Conn) bool {
	_, err := conn.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func TestConnectionsWithoutRequestsGiveWayToNewOnes(t *testing.T) {
	t.Parallel()
	discord := discordtest.NewServer(t)
	for name, use := range map[string]func(*testing.T, net.Conn){
		"never used": func(*testing.T, net.Conn) {}, "used once": send,
		"half a header": func(t *testing.T, conn net.Conn) {
			_, err := io.WriteString(conn, "GET /users/@me HTTP/1.1\r\nX-A: ")
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, "--upstream", discord.URL, "--max-connections", "3")
			var old []net.Conn
			for range 3 {
				old = append(old, dial(t, r.bots))
				use(t, old[len(old)-1])
			}
			late := dial(t, r.bots)
			send(t, late)
			send(t, dial(t, r.bots))
			gone := make(chan bool, len(old))
			for _, conn := range old { // the server may notice in any order that these connections have no request
				go func() { gone <- closed(conn) }()
			}
			assert.True(t, <-gone)
			assert.True(t, <-gone)
			send(t, late)
		})
	}
}

func TestConnectionsWithRequestsAreNotClosedForNewOnes(t *testing.T) {
	t.Parallel()
	arrived, finish := make(chan struct{}), make(chan struct{})
	upstream := http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-finish
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = upstream.Serve(listener) }()
	t.Cleanup(func() { upstream.Close() })
	r := start(t, "--upstream", fmt.Sprint("http://", listener.Addr()), "--max-connections", "1")
	busy, done := dial(t, r.bots), make(chan struct{})
	go func() {
		send(t, busy)
		close(done)
	}()
	<-arrived
	assert.True(t, closed(dial(t, r.bots)), "a new connection must be closed, because the only other one has a request")
	close(finish)
	<-done
}
