package tune

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// times lists when the requests are made, and for what.
func times(l *Load) (list []string) {
	for _, a := range l.arrivals {
		list = append(list, a.at.String()+" "+l.queues[a.queue].route.String())
	}
	return list
}

func TestTracesOfAllForms(t *testing.T) {
	t.Parallel()
	want := []string{"0s POST /channels/1/messages", "1.5s GET /guilds/2/roles", "1m0s POST /channels/1/messages"}
	for name, content := range map[string]string{
		"a.csv":         "time,method,path\n10,POST,/channels/1/messages\n11.5,GET,/guilds/2/roles\n70,POST,/channels/1/messages\n",
		"no-header.csv": "10,POST,/channels/1/messages\n11.5,GET,/guilds/2/roles\n70,POST,/channels/1/messages",
		"unsorted.csv":  "70,post,/channels/1/messages\n\n10,POST,/api/v10/channels/1/messages?wait=true\r\n11.5,GET,https://discord.com/api/guilds/2/roles\n",
		"order.CSV":     "Path, status, Method , TIME\n/channels/1/messages,200,POST,10\n/guilds/2/roles,404,GET,11.5\n/channels/1/messages,,POST,70\n",
		"mark.csv":      "\uFEFFtime,method,path\n10,POST,/channels/1/messages\n11.5,GET,/guilds/2/roles\n70,POST,/channels/1/messages\n",
		"quoted":        "\"10\",\"POST\",\"/channels/1/messages\"\n11.5, GET, /guilds/2/roles\n70,POST,/channels/1/messages\n",
		"dated.csv": "2026-01-02T03:04:05Z,POST,/channels/1/messages\n2026-01-02T03:04:06.5Z,GET,/guilds/2/roles\n" +
			"2026-01-02T04:05:05+01:00,POST,/channels/1/messages\n",
		"unix.csv": "1767323045,POST,/channels/1/messages\n1767323046.5,GET,/guilds/2/roles\n1767323105,POST,/channels/1/messages\n",
		"a.jsonl": `{"time":0,"method":"POST","path":"/channels/1/messages"}` + "\n\n" +
			`{"time":1.5,"method":"GET","path":"/guilds/2/roles","status":200}` + "\n" + `{"path":"/channels/1/messages","method":"POST","time":"60"}`,
		"standard input": "  " + `{"time":"2026-01-02T03:04:05Z","method":"POST","path":"/channels/1/messages"}` + "\n" +
			`{"time":"2026-01-02T03:05:05Z","method":"POST","path":"/channels/1/messages"}` + "\r\n" +
			`{"time":"2026-01-02T03:04:06.5Z","method":"GET","path":"/guilds/2/roles"}` + "\n",
	} {
		load, err := ReadTrace(name, strings.NewReader(content), false)
		require.NoError(t, err, name)
		assert.Equal(t, want, times(load), name)
		assert.Equal(t, time.Minute, load.Length, name)
		assert.Equal(t, 2, load.Queues(), name)
		assert.Equal(t, 2, load.Routes(), name)
	}
}

func TestBadLinesAreNamed(t *testing.T) {
	t.Parallel()
	const token = "hunter2"
	tests := []struct {
		name, content string
		want          []string
	}{
		{"t.csv", "time,method,path\n1,POST,/channels/1/messages\nhunter2,POST,/x\n", []string{"t.csv:3:", "the time cannot be read", "RFC 3339", "seconds"}},
		{"t.csv", "1,POST,/x\n-1,POST,/x\n", []string{"t.csv:2:", "the time"}},
		{"t.csv", "NaN,POST,/x\n", []string{"t.csv:1:", "the time"}},
		{"t.csv", "1767323045123,POST,/x\n", []string{"t.csv:1:", "milliseconds"}},
		{"t.csv", "1,/hunter2,/x\n", []string{"t.csv:1:", "method", "GET or POST"}},
		{"t.csv", "1,POST,/webhooks/1/hunter2%zz\n", []string{"t.csv:1:", "path", "percent-encoding"}},
		{"t.csv", "1,POST,webhooks/1/hunter2\n", []string{"t.csv:1:", "path", "slash"}},
		{"t.csv", "1,POST,/webhooks/1/hunter2\n\n\n1,POST\n", []string{"t.csv:4:", "too few columns", "time, method, path"}},
		{"t.csv", "time,hunter2,path\n", []string{"t.csv:1:", "header", "time, method, path"}},
		{"t.csv", "1,POST,\"/webhooks/1/hunter2\n", []string{"t.csv:", "not CSV", "time, method, path"}},
		{"t.csv", "1,POST,/x\n2026-01-02T03:04:05Z,POST,/x\n", []string{"t.csv:2:", "mixed"}},
		{"t.csv", "", []string{"t.csv: no requests", "time, method, path"}},
		{"t.csv", "time,method,path\n", []string{"t.csv: no requests"}},
		{"t.csv", "1,POST,/x\n40000000,POST,/x\n", []string{"t.csv: the first and the last", "463 days", "a year"}},
		{"t.jsonl", "{\"time\":1,\"method\":\"POST\",\"path\":\"/x\"}\nhunter2\n", []string{"t.jsonl:2:", "JSON object"}},
		{"t.jsonl", "{\"time\":1,\"method\":\"POST\"}\n", []string{"t.jsonl:1:", "JSON object"}},
		{"t.jsonl", "{\"time\":1,\"method\":\"POST\",\"path\":[\"hunter2\"]}\n", []string{"t.jsonl:1:", "path"}},
		{"t.jsonl", "{\"time\":[\"hunter2\"],\"method\":\"POST\",\"path\":\"/x\"}\n", []string{"t.jsonl:1:", "the time cannot be read"}},
		{"t.jsonl", "\n" + strings.Repeat("x", longestLine+1), []string{"t.jsonl:2:", "too long"}},
		{"x", "{\"time\":1,\n", []string{"x:1:", "all on one line"}},
	}
	for _, test := range tests {
		_, err := ReadTrace(test.name, strings.NewReader(test.content), false)
		require.Error(t, err, test.content)
		for _, want := range test.want {
			assert.Contains(t, err.Error(), want, test.content)
		}
		assert.NotContains(t, err.Error(), token)
	}
}

func TestReaderThatFailsIsTheError(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"t.csv", "t.jsonl"} {
		broken := io.MultiReader(strings.NewReader("\n"), iotest.ErrReader(errors.New("disk gone")))
		_, err := ReadTrace(name, broken, false)
		assert.ErrorContains(t, err, name)
		assert.ErrorContains(t, err, "disk gone")
	}
}

func TestNamesContainNoToken(t *testing.T) {
	t.Parallel()
	const token = "hunter2"
	content := "0,POST,/webhooks/123/hunter2\n0,POST,/webhooks/hunter2/123\n0,POST,/interactions/5/hunter2/callback\n" +
		"0,PATCH,/webhooks/123/hunter2/messages/@original\n0,GET,/unheard-of/hunter2\n0,GET,/channels/hunter2\n" +
		"0,POST,/webhooks/123/other\n"
	load, err := ReadTrace("t.csv", strings.NewReader(content), false)
	require.NoError(t, err)
	var names []string
	for _, q := range load.queues {
		names = append(names, q.name)
		assert.NotContains(t, q.name, token)
	}
	assert.Contains(t, names, "POST /webhooks/{webhook_id}/{webhook_token} of webhook 123")
	assert.Len(t, names, 7, "another token is another queue")
	report := compare(t, load, usual, 0, second)
	assert.Zero(t, report.Results[0].Refused)
}

func TestBadLinesAreSkippedIfToldTo(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"a.csv": "time,method,path\n10,POST,/channels/1/messages\nhunter2,POST,/x\n11.5,GET,/guilds/2/roles\n12,POST\n13,POST,\"/webhooks/1/hunter2\n" +
			"2026-01-02T03:04:05Z,POST,/x\n70,POST,/channels/1/messages\n",
		"a.jsonl": `{"time":10,"method":"POST","path":"/channels/1/messages"}` + "\nhunter2\n" + `{"time":11.5,"method":"GET","path":"/guilds/2/roles"}` + "\n" +
			`{"time":12}` + "\n" + `{"time":-1,"method":"GET","path":"/x"}` + "\n" + `{"time":13,"method":"GET","path":"hunter2"}` + "\n" +
			`{"time":70,"method":"POST","path":"/channels/1/messages"}`,
	} {
		load, err := ReadTrace(name, strings.NewReader(content), true)
		require.NoError(t, err, name)
		assert.Equal(t, []string{"0s POST /channels/1/messages", "1.5s GET /guilds/2/roles", "1m0s POST /channels/1/messages"}, times(load), name)
		assert.Equal(t, 4, load.Skipped, name)
		line := 3
		if name == "a.jsonl" {
			line = 2
		}
		assert.ErrorContains(t, load.FirstSkipped, fmt.Sprintf("%s:%d:", name, line))
		assert.NotContains(t, load.FirstSkipped.Error(), "hunter2")
	}
	_, err := ReadTrace("a.csv", strings.NewReader("hunter2,POST,/x\n1,2\n"), true)
	require.ErrorContains(t, err, "all 2 lines were skipped")
	require.ErrorContains(t, err, "a.csv:1: the time cannot be read")
	_, err = ReadTrace("a.csv", strings.NewReader("time,what,path\n1,POST,/x\n"), true)
	require.ErrorContains(t, err, "the header lacks one", "then no line can be read")
	load, err := ReadTrace("a.csv", strings.NewReader("1,POST,/x\n"), true)
	require.NoError(t, err)
	assert.Zero(t, load.Skipped)
	for _, end := range []string{"", "\n", "\n2,POST,/x\n"} {
		load, err = ReadTrace("a.csv", strings.NewReader("1,POST,/x\n"+strings.Repeat("x", 3*longestLine)+end), true)
		require.NoError(t, err)
		assert.Equal(t, 1, load.Skipped)
		assert.ErrorContains(t, load.FirstSkipped, "a.csv:2: the line is too long")
		assert.Equal(t, 1+strings.Count(end, "POST"), load.Requests())
	}
	_, err = ReadTrace("a.csv", io.MultiReader(strings.NewReader("1,POST,/x\n"), iotest.ErrReader(errors.New("disk gone"))), true)
	require.ErrorContains(t, err, "disk gone", "that is no bad line")
}
