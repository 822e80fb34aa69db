package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/proxy"
)

// config has the settings from flags and environment. The environment variable of a flag is RATELIGHT_ followed by the
// flag's name in capitals, with underscores. Some variables of other proxies are also accepted, if they have the same
// meaning as a flag. The help texts of the flags are in flagHelp.
type config struct {
	Listen         string        `placeholder:"HOST:PORT"`
	Admin          string        `placeholder:"HOST:PORT"`
	Upstream       string        `default:"https://discord.com" placeholder:"URL"`
	MaxWait        time.Duration `default:"10s" placeholder:"TIME"`
	MaxQueue       int           `default:"10000" placeholder:"N"`
	MaxConnections int           `default:"10000" placeholder:"N"`
	MaxBody        int64         `default:"1048576" placeholder:"BYTES"`
	RequestTimeout patience      `default:"15s" env:"RATELIGHT_REQUEST_TIMEOUT,REQUEST_TIMEOUT" placeholder:"TIME"`

	GlobalLimit limits          `env:"RATELIGHT_GLOBAL_LIMIT,BOT_RATELIMIT_OVERRIDES" default:"50" placeholder:"N,BOT:N,…"`
	Limit       []declaredLimit `placeholder:"ROUTE=N/TIME"`
	KnownLimit  []knownLimit    `placeholder:"NAME"`
	HideLimits  bool

	DrainTimeout time.Duration `default:"25s" placeholder:"TIME"`

	Secret     string `placeholder:"SECRET"`
	SecretFile string `type:"existingfile" placeholder:"FILE"`
	TLSCert    string `type:"existingfile" placeholder:"FILE"`
	TLSKey     string `type:"existingfile" placeholder:"FILE"`
	ClientCA   string `type:"existingfile" placeholder:"FILE"`
	Insecure   bool

	AllowHost []string `placeholder:"NAME"`

	Redis       string `placeholder:"URL"`
	Application string `default:"ratelight-proxy" placeholder:"NAME"`

	State    string `placeholder:"FILE"`
	StateKey string `placeholder:"SECRET"`
	Record   string `placeholder:"FILE"`

	LogLevel  level  `default:"info" env:"RATELIGHT_LOG_LEVEL,LOG_LEVEL" placeholder:"LEVEL"`
	LogFormat string `default:"text" enum:"text,json" placeholder:"FORMAT"`
	AccessLog bool

	Check   bool             `env:"-"`
	Version kong.VersionFlag `env:"-"`
}

// errDone is returned by parse if the program should end with success, for example after --help.
var errDone = errors.New("done")

// parse returns the configuration, errDone, or an error that says what was expected.
func parse(arguments []string, stdout, stderr io.Writer) (c *config, err error) {
	c = new(config)
	unsetEmpty()
	type exited struct{}
	defer func() {
		switch problem := recover().(type) {
		case nil:
		case exited:
			err = errDone
		default:
			panic(problem)
		}
	}()
	parser, err := kong.New(c, kong.Name("ratelight-proxy"),
		kong.Writers(stdout, stderr), kong.Exit(func(int) { panic(exited{}) }),
		kong.Description("A proxy between bots and Discord's REST API. "+
			"Requests wait in the proxy until Discord is certain to accept them."),
		kong.DefaultEnvars("RATELIGHT"), kong.Vars{"version": version(), "known": knownNames()}, kong.PostBuild(addHelp))
	if err != nil {
		panic("ratelight-proxy: " + err.Error()) // the tags above or flagHelp are wrong
	}
	if _, err := parser.Parse(joinNegative(arguments)); err != nil {
		return nil, err
	}
	return c, c.complete()
}

// joinNegative rewrites "--flag -1" as "--flag=-1", because kong would parse -1 as a flag. No flag of ours begins with
// a digit.
func joinNegative(arguments []string) []string {
	var joined []string
	for _, argument := range arguments {
		last := len(joined) - 1
		isNegative := len(argument) > 1 && argument[0] == '-' && argument[1] >= '0' && argument[1] <= '9'
		if isNegative && last >= 0 && strings.HasPrefix(joined[last], "--") && !strings.Contains(joined[last], "=") {
			joined[last] += "=" + argument
		} else {
			joined = append(joined, argument)
		}
	}
	return joined
}

// unsetEmpty unsets the environment variables of the command that are empty, because Compose sets a missing variable to
// "".
func unsetEmpty() {
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		ours := strings.HasPrefix(name, "RATELIGHT_") ||
			name == "LOG_LEVEL" || name == "REQUEST_TIMEOUT" || name == "BOT_RATELIMIT_OVERRIDES"
		if ours && value == "" {
			_ = os.Unsetenv(name) // never fails for an existing name
		}
	}
}

// complete sets defaults that depend on other settings, and rejects values and combinations that cannot be used.
func (c *config) complete() (err error) {
	if c.Listen, err = address("listen", c.Listen, "127.0.0.1", "8080", "PORT", "HOST", "BIND_IP"); err != nil {
		return err
	}
	if c.Admin == "off" {
		c.Admin = ""
	} else if c.Admin, err = address("admin", c.Admin, "127.0.0.1", "8081", "METRICS_PORT"); err != nil {
		return err
	}
	if c.SecretFile != "" {
		if c.Secret != "" {
			return errors.New("--secret and --secret-file exclude each other: expected one of them")
		}
		text, err := os.ReadFile(c.SecretFile)
		if err != nil {
			return fmt.Errorf("--secret-file: %w", err)
		}
		if c.Secret = strings.TrimSpace(string(text)); c.Secret == "" {
			return errors.New("--secret-file: the file is empty: expected a secret")
		}
	}
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key belong together: expected both or none")
	case c.ClientCA != "" && c.TLSCert == "":
		return errors.New("--client-ca needs TLS: expected --tls-cert and --tls-key, too")
	case c.StateKey != "" && c.State == "":
		return errors.New("--state-key needs --state: expected both, or --state alone")
	case c.MaxWait < 0 || c.MaxWait > proxy.LongestWait:
		return fmt.Errorf("--max-wait is %v: expected 0 to %v", c.MaxWait, proxy.LongestWait)
	case c.MaxQueue < 0:
		return fmt.Errorf("--max-queue is %d: expected 0 or more", c.MaxQueue)
	case c.MaxConnections < 0:
		return fmt.Errorf("--max-connections is %d: expected 0 or more", c.MaxConnections)
	case c.DrainTimeout <= 0:
		return fmt.Errorf("--drain-timeout is %v: expected more than 0", c.DrainTimeout)
	}
	if _, err := c.declared(); err != nil {
		return err
	}
	if err := writable("state", c.State); err != nil {
		return err
	}
	if err := writable("record", c.Record); err != nil {
		return err
	}
	for i, name := range c.AllowHost {
		if c.AllowHost[i] = strings.TrimSpace(name); !isHost(c.AllowHost[i]) {
			return fmt.Errorf("--allow-host is %q: expected a name without a port, such as limits.example.com", name)
		}
	}
	for _, a := range []string{c.Listen, c.Admin} {
		if a != "" && !isLoopback(a) && c.Secret == "" && c.ClientCA == "" && !c.Insecure {
			return fmt.Errorf("others can reach %s: "+
				"expected --secret, --client-ca with --tls-cert and --tls-key, or --insecure", a)
		}
	}
	return nil
}

// writable returns an error if the file clearly cannot be written. It does not try to write the file.
func writable(flag, name string) error {
	if name == "" {
		return nil
	}
	folder, err := os.Stat(filepath.Dir(name))
	if err == nil && !folder.IsDir() {
		err = fmt.Errorf("%s is not a directory", filepath.Dir(name))
	}
	file, problem := os.Stat(name)
	switch {
	case problem != nil:
	case file.IsDir():
		err = fmt.Errorf("%s is a directory", name)
	case file.Mode()&os.ModeNamedPipe != 0: // opening a pipe would block
		err = fmt.Errorf("%s is a pipe", name)
	}
	if err != nil {
		return fmt.Errorf("--%s: %w: expected the name of a file in a directory that exists", flag, err)
	}
	return nil
}

// address returns the address to listen on. If the given address is empty, the result is made from the variables of
// other proxies and the defaults. Shells set variables such as HOST to the machine's name, so such a variable counts
// only if its value is localhost or an IP address.
func address(flag, given, host, port, portName string, hostNames ...string) (string, error) {
	if given == "" {
		for _, name := range hostNames {
			if text := os.Getenv(name); text == "localhost" || net.ParseIP(text) != nil {
				host = text
			}
		}
		if text := os.Getenv(portName); text != "" {
			if port = text; !isPort(port) {
				return "", fmt.Errorf("%s is %q: expected the number of a port", portName, text)
			}
		}
		return net.JoinHostPort(host, port), nil
	}
	if _, port, err := net.SplitHostPort(given); err != nil || !isPort(port) {
		return "", fmt.Errorf("--%s is %q: expected host and port, such as 127.0.0.1:8080", flag, given)
	}
	return given, nil
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// isHost reports whether the text is the name of a host alone, without scheme, port and path.
func isHost(name string) bool {
	u, err := url.Parse("//" + name)
	return err == nil && name != "" && u.Host == name && u.Hostname() == name
}

// hosts returns the names by which requests may reach the proxy.
func (c *config) hosts() []string {
	names := c.AllowHost
	for _, a := range []string{c.Listen, c.Admin} {
		host, _, _ := net.SplitHostPort(a)
		names = append(names, host)
	}
	return names
}

func isLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// tls returns the TLS configuration of both listeners, or nil if TLS is off.
func (c *config) tls() (*tls.Config, error) {
	if c.TLSCert == "" {
		return nil, nil
	}
	certificate, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
	}
	t := &tls.Config{Certificates: []tls.Certificate{certificate}}
	if c.ClientCA == "" {
		return t, nil
	}
	text, err := os.ReadFile(c.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("--client-ca: %w", err)
	}
	t.ClientAuth, t.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	if !t.ClientCAs.AppendCertsFromPEM(text) {
		return nil, errors.New("--client-ca: the file has no certificates: expected some in PEM form")
	}
	return t, nil
}

// attributes returns the effective settings for the log, without secrets.
func (c *config) attributes() []any {
	secret := func(text string) string {
		if text == "" {
			return ""
		}
		return "set"
	}
	limitTexts := make([]string, len(c.Limit))
	for i, limit := range c.Limit {
		limitTexts[i] = limit.text
	}
	return []any{
		"version", version(), "listen", c.Listen, "admin", c.Admin, "upstream", publicURL(c.Upstream),
		"max-wait", c.MaxWait, "max-queue", c.MaxQueue, "max-connections", c.MaxConnections, "max-body", c.MaxBody,
		"request-timeout", time.Duration(c.RequestTimeout),
		"global-limit", c.GlobalLimit.String(), "limit", limitTexts, "known-limit", c.KnownLimit, "hide-limits", c.HideLimits,
		"drain-timeout", c.DrainTimeout, "secret", secret(c.Secret), "secret-file", c.SecretFile, "tls-cert", c.TLSCert,
		"tls-key", c.TLSKey, "client-ca", c.ClientCA, "insecure", c.Insecure, "allow-host", c.AllowHost,
		"redis", publicURL(c.Redis), "application", c.Application, "state", c.State, "state-key", secret(c.StateKey),
		"record", c.Record, "log-level", strings.ToLower(slog.Level(c.LogLevel).String()), "log-format", c.LogFormat,
		"access-log", c.AccessLog,
	}
}

// publicURL returns a URL without user and query, for the log. The path may be the secret of a proxy, so publicURL
// replaces the path by "…" unless the path is the number of a database.
func publicURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" {
		return "set"
	}
	path := strings.Trim(u.Path, "/")
	if _, err := strconv.ParseUint(path, 10, 8); err != nil && path != "" {
		path = "…"
	}
	address := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	return strings.TrimRight(address+"/"+path, "/")
}

func (c *config) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(c.LogLevel)}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// patience is a duration. A number without a unit is in milliseconds.
type patience time.Duration

func (p *patience) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if n, problem := strconv.ParseUint(string(text), 10, 32); problem == nil {
		d, err = time.Duration(n)*time.Millisecond, nil
	}
	if err != nil || d <= 0 {
		return fmt.Errorf("%q: expected a time above 0, such as 15s, or milliseconds", text)
	}
	*p = patience(d)
	return nil
}

// limits has the global limit that applies to all bots, and the limits of bots that are exceptions, by their ids. The
// text form is limit,id:limit,id:limit.
type limits struct {
	all    int
	ofBots map[string]int
}

func (l *limits) UnmarshalText(text []byte) error {
	*l = limits{all: buckets.DefaultGlobalLimit, ofBots: make(map[string]int)}
	for part := range strings.SplitSeq(string(text), ",") {
		part = strings.TrimSpace(part)
		id, limit, isOfBot := strings.Cut(part, ":")
		if !isOfBot {
			limit = id
		}
		n, err := strconv.Atoi(limit)
		_, problem := strconv.ParseUint(id, 10, 64)
		switch {
		case part == "":
		case err != nil || n <= 0 || problem != nil:
			return fmt.Errorf("%q: expected requests per second, "+
				"or a bot's id, a colon and that bot's requests per second, such as 80351110224678912:500", part)
		case isOfBot:
			l.ofBots[id] = n
		default:
			l.all = n
		}
	}
	return nil
}

// String returns the limits in the syntax of the flag.
func (l *limits) String() string {
	text := strconv.Itoa(l.all)
	for _, id := range slices.Sorted(maps.Keys(l.ofBots)) {
		text += fmt.Sprintf(",%s:%d", id, l.ofBots[id])
	}
	return text
}

// level is a log level. UnmarshalText accepts the names that several loggers use.
type level slog.Level

func (l *level) UnmarshalText(text []byte) error {
	switch strings.ToLower(string(text)) {
	case "trace", "debug":
		*l = level(slog.LevelDebug)
	case "info":
		*l = level(slog.LevelInfo)
	case "warn", "warning":
		*l = level(slog.LevelWarn)
	case "error", "fatal", "panic":
		*l = level(slog.LevelError)
	default:
		return fmt.Errorf("%q: expected debug, info, warn or error", text)
	}
	return nil
}
