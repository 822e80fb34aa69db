package main

import (
	"fmt"

	"github.com/alecthomas/kong"
)

// flagHelp has the help text of each flag of config. ${default} stands for the default of the flag.
var flagHelp = map[string]string{
	"listen": "Where bots connect. Default 127.0.0.1:8080. An address that is not loopback needs a secret, client " +
		"certificates or --insecure. Also set by HOST or BIND_IP, and PORT.",
	"admin": "Where the live page, /metrics, /live, /ready and /upstream are served, or off. Default " +
		"127.0.0.1:8081. Also set by METRICS_PORT.",
	"upstream": "Where requests are sent: ${default}, or a compatible or fake server.",
	"max-wait": "Longest accepted wait. A request whose predicted wait is longer gets a 429 at once. Default " +
		"${default}. A request can set its own longest wait, in seconds, with the header X-Ratelight-Max-Wait.",
	"max-queue": "How many requests may wait in total. A request above this number gets a 503. Default ${default}; 0 " +
		"means no bound.",
	"max-connections": "How many connections bots may have open. For one more, the connection that has been without a " +
		"request for longest is closed. Default ${default}; 0 means no bound.",
	"max-body": "Requests with bodies up to this size are kept in memory, so that they can be repeated after a 429. " +
		"Default ${default}.",
	"request-timeout": "How long an attempt to send a request may go without progress. A number without a unit is " +
		"in milliseconds. Default ${default}. Also set by REQUEST_TIMEOUT.",

	"global-limit": "Requests per second of each bot, and exceptions, by id, for bots whose limit Discord has " +
		"raised. Default ${default}. Also set by BOT_RATELIMIT_OVERRIDES.",
	"limit": "A limit that Discord does not announce, such as " +
		"'PUT /guilds/{guild_id}/members/{user_id}/roles/{role_id}=10/10s per major' or 'all=100/1m per group'. " +
		"Can be repeated.",
	"known-limit": "A known limit that Discord does not announce: all, or ${known}. Can be repeated.",
	"hide-limits": "Remove X-RateLimit-* from responses, so that libraries do not delay requests as well.",

	"drain-timeout": "How long the proxy waits after SIGTERM for its requests to end. Default ${default}.",

	"secret": "The secret that every request must carry, in the header X-Ratelight-Secret or as the first part of " +
		"the path. 16 characters or more.",
	"secret-file": "A file that contains the secret.",
	"tls-cert":    "Certificate for TLS, with --tls-key.",
	"tls-key":     "The key of the certificate of --tls-cert.",
	"client-ca":   "Certificates of authorities. Only clients with a certificate of one of them are accepted.",
	"insecure":    "Listen on any address without a secret.",

	"allow-host": "Another name by which requests reach the proxy. Without a secret and without TLS, the proxy " +
		"serves only addresses, localhost, names without a dot, and these names. Can be repeated.",

	"redis":       "Share limits with other processes through this Redis or Valkey server.",
	"application": "Processes with the same name share limits on the server of --redis. Default ${default}.",

	"state":     "Keep in this file what is known of limits, so that the proxy still knows it after a restart.",
	"state-key": "Secret key for the hashes in the state file. The file does not contain the key. Needs --state.",
	"record": "Record in this file the route and time of each request, for bench tune. The file is overwritten at " +
		"each start. It contains no ids and no tokens.",

	"log-level":  "debug, info, warn or error. Default ${default}. Also set by LOG_LEVEL.",
	"log-format": "text or json. Default ${default}.",
	"access-log": "Log each request with its route and its outcome, without path, query, tokens and secrets.",

	"check":   "Check flags, environment and files, and exit.",
	"version": "Print the version, and exit.",
}

// addHelp gives each flag its help text from flagHelp.
func addHelp(k *kong.Kong) error {
	for _, flag := range k.Model.Flags {
		if flag == k.Model.HelpFlag {
			continue
		}
		if flag.Help = flagHelp[flag.Name]; flag.Help == "" {
			return fmt.Errorf("--%s has no text in flagHelp", flag.Name)
		}
	}
	if flags := len(k.Model.Flags) - 1; len(flagHelp) != flags {
		return fmt.Errorf("flagHelp has %d texts for %d flags", len(flagHelp), flags)
	}
	return nil
}
