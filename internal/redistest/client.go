package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// Client is a client on one connection. It implements the part of the protocol RESP 2 that tests need.
type Client struct {
	connection net.Conn
	reader     *bufio.Reader
}

// NewClient returns a client on a connection.
func NewClient(connection net.Conn) *Client {
	return &Client{connection, bufio.NewReader(connection)}
}

func (c *Client) Close() { c.connection.Close() }

// Do sends a command and returns the answer to it, in the types that Receive names.
func (c *Client) Do(words ...string) (any, error) {
	if err := c.Send(words...); err != nil {
		return nil, err
	}
	return c.Receive()
}

// Send sends a command without waiting for the answer.
func (c *Client) Send(words ...string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
	}
	_, err := io.WriteString(c.connection, b.String())
	return err
}

// Receive waits for an answer or a message. It returns a string, an int64, nil, or a []any of these types.
func (c *Client) Receive() (any, error) {
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("redistest: empty line")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, errors.New(rest)
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	}
	n, err := strconv.Atoi(rest)
	switch {
	case err != nil:
		return nil, err
	case n < 0:
		return nil, nil
	case kind == '$':
		text := make([]byte, n+2)
		if _, err := io.ReadFull(c.reader, text); err != nil {
			return nil, err
		}
		return string(text[:n]), nil
	case kind != '*':
		return nil, fmt.Errorf("redistest: answer of an unknown kind %q", kind)
	}
	list := make([]any, n)
	for i := range list {
		if list[i], err = c.Receive(); err != nil {
			return nil, err
		}
	}
	return list, nil
}
