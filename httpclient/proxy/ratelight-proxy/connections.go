package main

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// connections bounds the number of open connections of a server. When a new connection exceeds the bound, the
// connection that has been without a request for longest is closed. If all other connections have a request, the new
// one is closed. So clients that connect but send no requests cannot keep other clients out.
type connections struct {
	most int // largest number of open connections; 0 means no bound

	mu   sync.Mutex // guards all fields below
	open map[net.Conn]*list.Element
	idle *list.List // of net.Conn: connections without a request, the longest idle one first
}

func newConnections(most int) *connections {
	return &connections{most: most, open: make(map[net.Conn]*list.Element), idle: list.New()}
}

// changed is the ConnState hook of a server.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if c.most == 0 {
		return
	}
	c.mu.Lock()
	surplus := c.move(conn, state)
	c.mu.Unlock()
	if secured, ok := surplus.(*tls.Conn); ok {
		surplus = secured.NetConn() // the Close of a tls.Conn may wait for the client
	}
	if surplus != nil {
		_ = surplus.Close() // the server notices, and reports StateClosed
	}
}

// move records the state of a connection. It returns the connection that has to be closed, or nil if none has to be.
func (c *connections) move(conn net.Conn, state http.ConnState) net.Conn {
	if at := c.open[conn]; at != nil {
		c.idle.Remove(at)
	}
	switch state {
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
		return nil
	case http.StateActive:
		c.open[conn] = nil
		return nil
	}
	if len(c.open) >= c.most && state == http.StateNew {
		oldest := c.idle.Front()
		if oldest == nil {
			return conn
		}
		surplus := c.idle.Remove(oldest).(net.Conn)
		delete(c.open, surplus)
		c.open[conn] = c.idle.PushBack(conn)
		return surplus
	}
	c.open[conn] = c.idle.PushBack(conn)
	return nil
}
