module github.com/ratelight/ratelight/buckets/shared/spectacles

go 1.26.0

require (
	github.com/jonboulle/clockwork v0.5.0
	github.com/ratelight/ratelight v0.2.0 // the first version that does not contain this package
	github.com/redis/rueidis v1.0.79
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/puzpuzpuz/xsync/v4 v4.5.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/ratelight/ratelight => ../../..
