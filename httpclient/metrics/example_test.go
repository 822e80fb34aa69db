package metrics_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/metrics"
)

func ExampleNew() {
	transport := httpclient.NewTransport() // give it to your library in an http.Client
	defer transport.Close()

	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(metrics.New(transport.Manager(), transport))

	families, _ := registry.Gather()
	for _, family := range families {
		if family.GetName() == "ratelight_requests_waiting" {
			fmt.Println(family.GetName(), family.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output: ratelight_requests_waiting 0
}
