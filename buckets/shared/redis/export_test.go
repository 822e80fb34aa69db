package redis

import "github.com/redis/rueidis"

// Runner lets tests run scripts of their own.
func (s *Store) Runner() *Client { return s.client.client }

// Probed returns the commands that Open tries in scripts.
func Probed() (names []string) {
	for _, p := range probes {
		names = append(names, p[0])
	}
	return names
}

// Mode returns the kind of engine that the client has found.
func (c *Client) Mode() rueidis.ClientMode { return c.inner.Mode() }
