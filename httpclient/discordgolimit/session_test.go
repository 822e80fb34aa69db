package discordgolimit_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordgolimit"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/librarytest"
	"github.com/ratelight/ratelight/ratelimits"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newSession(transport *httpclient.Transport) *discordgo.Session {
	session, err := discordgo.New("Bot token")
	if err != nil {
		panic(err)
	}
	discordgolimit.Prepare(session, transport)
	return session
}

func TestCallMakesEveryOptionEffective(t *testing.T) {
	t.Parallel()
	librarytest.Run(t, "discordgolimit", "../../README.md", func(transport *httpclient.Transport) librarytest.Library {
		session := newSession(transport)
		return librarytest.Library{
			Send: func(ctx context.Context, channel uint64, content string) error {
				_, err := discordgolimit.Call(session).ChannelMessageSend(strconv.FormatUint(channel, 10), content,
					discordgo.WithContext(ctx))
				return err
			},
			APIError: func(err error) (librarytest.APIError, bool) {
				e, ok := errors.AsType[*discordgo.RESTError](err)
				if !ok || e.Message == nil {
					return librarytest.APIError{}, false
				}
				return librarytest.APIError{Status: e.Response.StatusCode, Code: e.Message.Code, Message: e.Message.Message}, true
			},
		}
	})
}

func newDiscord(t *testing.T, config discordsim.Config) (*discordsim.Server, *httpclient.Transport) {
	t.Helper()
	discord, err := discordsim.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, discord.Close()) })
	transport := httpclient.NewTransport(httpclient.WithBase(discord.RoundTripper()))
	t.Cleanup(func() { assert.NoError(t, transport.Close()) })
	return discord, transport
}

// Call exists because a session sends one request at a time in a bucket. If this test fails, discordgo may have changed
// this behaviour. The test runs in real time, because virtual time stands still while a goroutine waits for a mutex.
func TestTheSessionItselfMakesOneCallAtATime(t *testing.T) {
	t.Parallel()
	discord, transport := newDiscord(t, librarytest.Config())
	session := newSession(transport)
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			_, err := session.ChannelMessageSend("1", "hello")
			assert.NoError(t, err)
		})
	}
	calls.Wait()
	assert.Equal(t, 1, discord.Report().MaxInFlight)
}

// A session allows one reaction in 200 ms in each channel, whatever Discord says. With Call there is no such limit.
func TestCallHasNoLimitOfItsOwnOnReactions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, transport := newDiscord(t, discordsim.Config{
			Default: &discordsim.Rule{Path: "**", Quota: discordsim.Unlimited()},
			Latency: discordsim.RoundTrip(50 * time.Millisecond),
		})
		session := newSession(transport)
		start := time.Now()
		for range 5 {
			require.NoError(t, discordgolimit.Call(session).MessageReactionAdd("1", "2", "🔥"))
		}
		assert.Equal(t, 5*50*time.Millisecond, time.Since(start), "five round trips")
	})
}

func TestTheSessionItselfIsNotToldOfLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, transport := newDiscord(t,
			discordsim.Config{Default: &discordsim.Rule{Path: "**", Quota: discordsim.Fixed(1, time.Minute)}})
		session := newSession(transport)
		require.NoError(t, session.ChannelMessageDelete("1", "2"))
		bucket := session.Ratelimiter.GetBucket(discordgo.EndpointChannelMessage("1", ""))
		assert.Zero(t, session.Ratelimiter.GetWaitTime(bucket, 1))
	})
}

func TestCallSharesTheState(t *testing.T) {
	t.Parallel()
	session, err := discordgo.New("Bot token")
	require.NoError(t, err)
	require.NoError(t, session.State.GuildAdd(&discordgo.Guild{ID: "1"}))
	require.NoError(t, session.State.ChannelAdd(&discordgo.Channel{ID: "2", GuildID: "1", Name: "general"}))
	guild, err := discordgolimit.Call(session).State.Guild("1")
	require.NoError(t, err)
	assert.Equal(t, "1", guild.ID)
	content, err := (&discordgo.Message{ChannelID: "2", Content: "see <#2>"}).
		ContentWithMoreMentionsReplaced(discordgolimit.Call(session))
	require.NoError(t, err)
	assert.Equal(t, "see #general", content)
}

// A program edits a message far more often than Discord accepts. In the end the message must have its latest content.
func TestOfAThousandEditsTheReaderSeesTheLatest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const edits, pace, window = 1000, 10 * time.Millisecond, 5 * time.Second
		discord := discordtest.NewServer(t,
			discordtest.Window("PATCH /channels/{id}/messages/{id}", 5, window), discordtest.Latency(20*time.Millisecond))
		transport := httpclient.NewTransport(httpclient.WithBase(discord.Client().Transport))
		defer transport.Close()
		session := newSession(transport)
		latest := httpclient.ContextWithLatest(t.Context())
		var calls sync.WaitGroup
		var succeeded atomic.Int64
		for i := range edits {
			calls.Go(func() {
				began := time.Now()
				edit := discordgo.NewMessageEdit("1", "2").SetContent(strconv.Itoa(i))
				_, err := discordgolimit.Call(session).ChannelMessageEditComplex(edit, discordgo.WithContext(latest))
				var superseded *ratelimits.SupersededError
				if errors.As(err, &superseded) {
					assert.LessOrEqual(t, time.Since(began), pace, "edit %d waits at most until the next edit is made", i)
					return
				}
				assert.NoError(t, err)
				succeeded.Add(1)
			})
			time.Sleep(pace)
		}
		last := time.Now()
		calls.Wait()
		sent := discord.Requests()
		assert.LessOrEqual(t, len(sent), 11)
		assert.Len(t, sent, int(succeeded.Load()))
		assert.Empty(t, discord.Refused())
		assert.Contains(t, string(sent[len(sent)-1].Body), `"content":"999"`)
		assert.LessOrEqual(t, sent[len(sent)-1].Time.Sub(last), window)
		t.Logf("%d sent", len(sent))
	})
}
