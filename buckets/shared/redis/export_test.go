package redis

import "github.com/redis/rueidis"

// Runner returns the client, so that tests can run scripts.
func (s *Store) Runner() *Client { return s.client.client }

// Probed returns the names of the commands that Open tries in scripts.
func Probed() (names []string) {
	for _, p := range probes {
		names = append(names, p[0])
	}
	return names
}

// Mode returns the kind of server that the client has detected.
func (c *Client) Mode() rueidis.ClientMode { return c.inner.Mode() }
