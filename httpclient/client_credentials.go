package httpclient

import (
	"errors"
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
