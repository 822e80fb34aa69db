package redis_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared/redis"
	"github.com/ratelight/ratelight/internal/redistest"
)

// certificate returns a certificate for a host, and a pool that contains the certificate.
func certificate(t *testing.T, host string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, pool
}

func TestTLS(t *testing.T) {
	t.Parallel()
	own, trusted := certificate(t, "localhost")
	e := redistest.NewEngine(t)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	redistest.NewProxy(t, e, tls.NewListener(plain, &tls.Config{Certificates: []tls.Certificate{own}}))
	_, port, _ := net.SplitHostPort(plain.Addr().String())
	_, others := certificate(t, "localhost")

	trust := redis.WithTLS(&tls.Config{RootCAs: trusted})
	open(t, "rediss://localhost:"+port, trust)
	open(t, "redis://localhost:"+port, trust)
	open(t, "valkeys://127.0.0.1:"+port, redis.WithTLS(&tls.Config{RootCAs: trusted, ServerName: "localhost"}))
	open(t, "rediss://127.0.0.1:"+port+"?skip_verify=true")

	assert.ErrorIs(t, refused(t, "rediss://localhost:"+port), redis.ErrTLS)
	assert.ErrorIs(t, refused(t, "rediss://localhost:"+port, redis.WithTLS(&tls.Config{RootCAs: others})), redis.ErrTLS)
	assert.ErrorIs(t, refused(t, "rediss://127.0.0.1:"+port, trust), redis.ErrTLS, "the certificate has another name")
	assert.ErrorIs(t, refused(t, "rediss://localhost:1?addr=127.0.0.1:"+port, trust), redis.ErrNoCluster,
		"the certificate must be checked against the first host of the URL")
	assert.ErrorContains(t, refused(t, "redis://localhost:"+port), "TLS", "a TLS server hangs up, or sends an alert")
}
