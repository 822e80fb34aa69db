package httpclient

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// ErrToken is returned by Do if New was given a token that cannot be one: a prefix with nothing behind it, as an unset
// variable makes it, or one with a space or another character inside that no token has.
var ErrToken = errors.New("token is no token: expected one as the developer portal shows it, with or without \"Bot \" or " +
	"\"Bearer \" before it, or the empty string for none")

// parseToken returns the value of the Authorization header for a token, empty for none.
func parseToken(token string) (string, error) {
	token = strings.TrimSpace(token)
	if token == "" {
		return "", nil
	}
	scheme := "Bot"
	first, rest, _ := strings.Cut(token, " ")
	for _, known := range []string{"Bot", "Bearer"} {
		if strings.EqualFold(first, known) {
			scheme, token = known, strings.TrimSpace(rest)
		}
	}
	visible := func(r rune) bool { return '!' <= r && r <= '~' }
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return !visible(r) }) {
		return "", ErrToken
	}
	return scheme + " " + token, nil
}

// Shorter texts are not looked for: they would be found in words.
const (
	shortestToken   = 8
	longestPathWord = 20 // a segment that is longer is no id and may be a token
)

// secretsOf returns what no error may contain: credentials, and everything in the path that may be a token.
func secretsOf(path string, authorizations ...string) []string {
	var secrets []string
	for _, authorization := range authorizations {
		if _, token, _ := strings.Cut(authorization, " "); token != "" {
			authorization = token
		}
		if len(authorization) >= shortestToken {
			secrets = append(secrets, authorization)
		}
	}
	for segment := range strings.SplitSeq(path, "/") {
		if len(segment) <= longestPathWord {
			continue
		}
		secrets = append(secrets, segment)
		if plain, err := url.PathUnescape(segment); err == nil && plain != segment {
			secrets = append(secrets, plain)
		}
	}
	return secrets
}

// scrub returns the text with every secret replaced.
func scrub(text string, secrets []string) string {
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "…")
	}
	return text
}

// conceal says which route an error belongs to, and keeps secrets out of its text.
func (c *call) conceal(err error) error {
	var outer *url.Error // contains the whole URL
	if errors.As(err, &outer) {
		err = outer.Err
	}
	text := err.Error()
	named := strings.Contains(text, c.name())
	if slices.ContainsFunc(c.secrets, func(secret string) bool { return strings.Contains(text, secret) }) {
		return &concealedError{text: c.name() + ": " + scrub(text, c.secrets), is: func(target error) bool {
			return errors.Is(err, target)
		}, as: func(target any) bool { return errors.As(err, target) }}
	}
	if named {
		return err
	}
	return fmt.Errorf("%s: %w", c.name(), err)
}

// concealedError stands for an error whose text contains a secret. It is what that is, as far as errors.Is and errors.As
// are concerned, and cannot be unwrapped; functions keep it out of dumps.
type concealedError struct {
	text string
	is   func(error) bool
	as   func(any) bool
}

func (e *concealedError) Error() string        { return e.text }
func (e *concealedError) Is(target error) bool { return e.is(target) }
func (e *concealedError) As(target any) bool   { return e.as(target) }
