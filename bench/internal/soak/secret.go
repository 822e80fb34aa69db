package soak

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// mark is in every token, several times, so that no piece of one that is worth anything is without it. No hash or number looks
// like it.
const mark = "zQ7xK9"

// interactionPrefix begins the tokens of interactions, and is no secret.
const interactionPrefix = "aW50ZXJhY3Rpb246"

// secret returns the n-th token of a kind. Any 17 characters of it contain the mark.
func secret(kind string, n uint64) string {
	return fmt.Sprintf("%s%s%06d%s%06d%s", kind, mark, n%1_000_000, mark, n/1_000_000, mark)
}

func botToken(name string, version int) string { return "Bot " + secret(name, uint64(version)) }
func interactionToken(n uint64) string         { return secret(interactionPrefix, n) }
func webhookToken(n uint64) string             { return secret("w", n) }

// bearer is the token of a user who has authorized the application.
var bearer = "Bearer " + secret("b", 0)

// needles are the forms in which the mark may turn up: as it is, in other case, as bytes that were printed as numbers, in
// hexadecimal, and in base64 (at each of the three offsets).
func needles() (found [][]byte) {
	numbers, hexadecimal := strings.Trim(fmt.Sprint([]byte(mark)), "[]"), fmt.Sprintf("%#v", []byte(mark))
	forms := []string{
		mark, strings.ToLower(mark), strings.ToUpper(mark), numbers,
		hexadecimal[strings.Index(hexadecimal, "{")+1 : len(hexadecimal)-1], hex.EncodeToString([]byte(mark)),
	}
	for offset := range 3 {
		coded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("-", offset) + mark))
		forms = append(forms, coded[offset*4/3+min(offset, 1):len(coded)-min((offset+len(mark))%3, 1)])
	}
	for _, form := range forms {
		found = append(found, []byte(form))
	}
	return found
}
