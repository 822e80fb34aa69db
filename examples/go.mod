module github.com/ratelight/ratelight/examples

go 1.26.0

require (
	github.com/bwmarrin/discordgo v0.29.0
	github.com/disgoorg/disgo v0.19.2
	github.com/ratelight/ratelight v0.1.0
	github.com/ratelight/ratelight/httpclient/discordgolimit v0.1.0
	github.com/ratelight/ratelight/httpclient/disgolimit v0.1.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require (
	github.com/disgoorg/godave v0.0.0-20260211222359-4ef3e359a3af // indirect
	github.com/disgoorg/json/v2 v2.0.0 // indirect
	github.com/disgoorg/omit v1.0.0 // indirect
	github.com/disgoorg/snowflake/v2 v2.0.3 // indirect
	github.com/gorilla/websocket v1.5.3 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/klauspost/compress v1.18.4 // indirect
	github.com/puzpuzpuz/xsync/v4 v4.5.0 // indirect
	github.com/sasha-s/go-csync v0.0.0-20240107134140-fcbab37b09ad // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/crypto v0.48.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/ratelight/ratelight => ../

replace github.com/ratelight/ratelight/httpclient/discordgolimit => ../httpclient/discordgolimit

replace github.com/ratelight/ratelight/httpclient/disgolimit => ../httpclient/disgolimit
