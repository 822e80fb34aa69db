module github.com/ratelight/ratelight/httpclient/discordgolimit

go 1.26.0

require (
	github.com/bwmarrin/discordgo v0.29.0
	github.com/ratelight/ratelight v0.1.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require (
	github.com/gorilla/websocket v1.4.2 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/puzpuzpuz/xsync/v4 v4.5.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/crypto v0.0.0-20210421170649-83a5a9bb288b // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/ratelight/ratelight => ../..
