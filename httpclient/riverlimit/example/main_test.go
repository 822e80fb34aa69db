package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/rest"
	"github.com/ratelight/ratelight/internal/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAllMessagesAreSentOnce(t *testing.T) {
	fake := discordtest.NewServer(t, discordtest.Answer("create_message", 200, map[string]any{"id": "1"}))
	discord := rest.New("token", rest.WithTransport(httpclient.WithBase(fake.Client().Transport)))
	defer discord.Close()
	pool, err := pgxpool.New(t.Context(), postgrestest.NewServer(t))
	require.NoError(t, err)
	defer pool.Close()
	queue := start(t.Context(), pool, discord)
	for channel := range 20 {
		_, err := queue.Insert(t.Context(), Message{fmt.Sprint(channel + 1), "hello"}, nil)
		require.NoError(t, err)
	}
	assert.Eventually(t, func() bool { return len(fake.Requests()) == 20 }, 20*time.Second, 50*time.Millisecond)
	require.NoError(t, queue.Stop(context.Background()))
	assert.Len(t, fake.Requests(), 20)
	assert.Empty(t, fake.Refused())
}
