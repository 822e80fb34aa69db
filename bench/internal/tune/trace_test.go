package tune

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// times lists the time and the route of each request.
func times(l *Load) (list []string) {
	for _, a := range l.arrivals {
		list = append(list, a.at.String()+" "+l.queues[a.queue].route.String())
	}
	return list
}

func TestTracesOfAllForms(t *testing.T) {
	t.Parallel()
	want := []string{"0s POST /channels/1/messages", "1.5s GET /guilds/2/roles", "1m0s POST /channels/1/messages"}
	const usual = "10,POST,/channels/1/messages\n11.5,GET,/guilds/2/roles\n70,POST,/channels/1/messages\n"
	for name, content := range map[string]string{
		"header":    "time,method,path\n" + usual,
		"no header": strings.TrimSuffix(usual, "\n"),
		"unsorted": "70,post,/channels/1/messages\n\n10,POST,/api/v10/channels/1/messages?wait=true\r\n" +
			"11.5,GET,https://discord.com/api/guilds/2/roles\n",
		"mark":   "\uFEFFtime,method,path\n" + usual,
		"quoted": "\"10\",\"POST\",\"/channels/1/messages\"\n11.5, GET, /guilds/2/roles\n70,POST,/channels/1/messages\n",
		"dated": "2026-01-02T03:04:05Z,POST,/channels/1/messages\n2026-01-02T03:04:06.5Z,GET,/guilds/2/roles\n" +
			"2026-01-02T04:05:05+01:00,POST,/channels/1/messages\n",
	} {
		load, err := ReadTrace(name, strings.NewReader(content))
		require.NoError(t, err, name)
		assert.Equal(t, want, times(load), name)
		assert.Equal(t, time.Minute, load.Length, name)
		assert.Len(t, load.queues, 2, name)
	}
}

func TestBadLinesAreSkippedAndNamed(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"hunter2,POST,/x":              "t.csv:3: the time cannot be read: expected RFC 3339",
		"1767323045123,POST,/x":        "t.csv:3: the time cannot be read",
		"1,/hunter2,/x":                "t.csv:3: method or path: ",
		"1,POST,webhooks/1/hunter2":    "t.csv:3: method or path: ",
		"1,POST":                       "t.csv:3: too few columns: expected the columns time, method, path",
		"2026-01-02T03:04:05Z,POST,/x": "t.csv:3: RFC 3339 and seconds are mixed",
	} {
		text := "time,method,path\n10,POST,/channels/1/messages\n" + line + "\n70,GET,/gateway\n"
		load, err := ReadTrace("t.csv", strings.NewReader(text))
		require.NoError(t, err)
		assert.Equal(t, []string{"0s POST /channels/1/messages", "1m0s GET /gateway"}, times(load))
		assert.Equal(t, 1, load.Skipped)
		assert.ErrorContains(t, load.FirstSkipped, want)
		assert.NotContains(t, load.FirstSkipped.Error(), "hunter2")
	}
	for content, want := range map[string]string{
		"time,method,path\n":            "t.csv: no requests",
		"1,POST,/x\n40000000,POST,/x\n": "t.csv: the first and the last request are 463 days apart",
		"hunter2,POST,/x\n1,2\n": "t.csv: all 2 lines were skipped, " +
			"the first because of this: t.csv:1: the time cannot be read",
	} {
		_, err := ReadTrace("t.csv", strings.NewReader(content))
		assert.ErrorContains(t, err, want)
	}
	_, err := ReadTrace("t.csv", io.MultiReader(strings.NewReader("1,POST,/x\n"), iotest.ErrReader(errors.New("gone"))))
	require.ErrorContains(t, err, "t.csv: gone", "that is no bad line")
}

func TestNamesContainNoToken(t *testing.T) {
	t.Parallel()
	load, err := ReadTrace("t.csv", strings.NewReader("0,POST,/webhooks/123/hunter2\n0,POST,/webhooks/hunter2/123\n"+
		"0,POST,/interactions/5/hunter2/callback\n0,PATCH,/webhooks/123/hunter2/messages/@original\n"+
		"0,GET,/unheard-of/hunter2\n0,GET,/channels/hunter2\n0,POST,/webhooks/123/other\n"))
	require.NoError(t, err)
	var names []string
	for i := range load.queues {
		names = append(names, load.queues[i].name())
		assert.NotContains(t, names[i], "hunter2")
	}
	assert.Contains(t, names, "POST /webhooks/{webhook_id}/{webhook_token} of webhook 123")
	assert.Len(t, names, 7, "another token is another queue")
}
