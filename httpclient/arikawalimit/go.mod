module github.com/ratelight/ratelight/httpclient/arikawalimit

go 1.26.0

require (
	github.com/diamondburned/arikawa/v3 v3.6.0
	github.com/ratelight/ratelight v0.1.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require (
	github.com/gorilla/schema v1.4.1 // indirect
	github.com/gorilla/websocket v1.5.3 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/puzpuzpuz/xsync/v4 v4.5.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/time v0.14.0 // indirect
)

replace github.com/ratelight/ratelight => ../..
