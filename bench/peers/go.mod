module github.com/ratelight/ratelight/bench/peers

go 1.26.0

require (
	github.com/bwmarrin/discordgo v0.29.0
	github.com/diamondburned/arikawa/v3 v3.6.0
	github.com/disgoorg/disgo v0.19.2
	github.com/disgoorg/snowflake/v2 v2.0.3
	github.com/ratelight/ratelight v0.1.0
	github.com/ratelight/ratelight/httpclient/arikawalimit v0.1.0
	github.com/ratelight/ratelight/httpclient/discordgolimit v0.1.0
	github.com/ratelight/ratelight/httpclient/disgolimit v0.1.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	golang.org/x/sync v0.23.0
	golang.org/x/time v0.16.0
)

require (
	github.com/disgoorg/json/v2 v2.0.0 // indirect
	github.com/disgoorg/omit v1.0.0 // indirect
	github.com/gorilla/schema v1.4.1 // indirect
	github.com/gorilla/websocket v1.5.3 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/puzpuzpuz/xsync/v4 v4.5.0 // indirect
	github.com/sasha-s/go-csync v0.0.0-20240107134140-fcbab37b09ad // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/crypto v0.48.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace (
	github.com/ratelight/ratelight => ../..
	github.com/ratelight/ratelight/httpclient/arikawalimit => ../../httpclient/arikawalimit
	github.com/ratelight/ratelight/httpclient/discordgolimit => ../../httpclient/discordgolimit
	github.com/ratelight/ratelight/httpclient/disgolimit => ../../httpclient/disgolimit
)
