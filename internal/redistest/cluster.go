package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const slots = 16384

// NewCluster starts a cluster for a test, with the given number of primaries, and the given number of replicas for each
// primary. It waits until all nodes report that the cluster is complete, and then returns the primaries, followed by
// the replicas. If no server is installed, it skips or fails the test, like NewEngine.
func NewCluster(t testing.TB, primaries, replicas int, arguments ...string) []*Engine {
	t.Helper()
	arguments = append([]string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-config-file", "nodes.conf",
		"--repl-diskless-sync-delay", "0", // a replica need not wait for other replicas
	}, arguments...)
	nodes := make([]*Engine, primaries*(1+replicas))
	for i := range nodes {
		nodes[i] = NewEngine(t, arguments...)
	}
	for i, node := range nodes {
		must(t, node, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i > 0 {
			must(t, node, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(nodes[0].Port()))
		}
	}
	for i, node := range nodes[:primaries] {
		words := []string{"CLUSTER", "ADDSLOTS"}
		for slot := i * slots / primaries; slot < (i+1)*slots/primaries; slot++ {
			words = append(words, strconv.Itoa(slot))
		}
		must(t, node, words...)
	}
	everywhere(t, nodes, "CLUSTER", "INFO", "cluster_known_nodes:"+strconv.Itoa(len(nodes)))
	for i, node := range nodes[primaries:] {
		must(t, node, "CLUSTER", "REPLICATE", must(t, nodes[i%primaries], "CLUSTER", "MYID"))
	}
	everywhere(t, nodes, "CLUSTER", "INFO", "cluster_state:ok")
	everywhere(t, nodes[primaries:], "INFO", "replication", "master_link_status:up")
	return nodes
}

// NewSentinel starts a Sentinel for a test. The Sentinel watches a primary under the given name. The Sentinel decides
// about fail-overs alone, without other Sentinels.
func NewSentinel(t testing.TB, name string, primary *Engine) *Engine {
	t.Helper()
	configuration := filepath.Join(t.TempDir(), "sentinel.conf") // a file, because the Sentinel writes to it
	text := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 1\nsentinel down-after-milliseconds %[1]s 500\n"+
		"sentinel failover-timeout %[1]s 2000\n", name, primary.Port())
	if err := os.WriteFile(configuration, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return NewEngineWith(t, Options{Sentinel: true, Arguments: []string{configuration}})
}

// Do sends one command to the server on a new connection, and returns the answer: a string, an int64, nil, or a []any
// of these types.
func (e *Engine) Do(words ...string) (any, error) {
	connection, err := net.DialTimeout("tcp", e.Address(), time.Second)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(5 * time.Second))
	return NewClient(connection).Do(words...)
}

func must(t testing.TB, e *Engine, words ...string) string {
	t.Helper()
	answer, err := e.Do(words...)
	if err != nil {
		t.Fatalf("%s: %v", words[:2], err)
	}
	return fmt.Sprint(answer)
}

// everywhere sends a command to each node until the answer contains a text. The last one of words is the text, and the
// words before it are the command.
func everywhere(t testing.TB, nodes []*Engine, words ...string) {
	t.Helper()
	words, text := words[:len(words)-1], words[len(words)-1]
	deadline := time.Now().Add(20 * time.Second)
	for _, node := range nodes {
		for !strings.Contains(must(t, node, words...), text) {
			if time.Now().After(deadline) {
				t.Fatalf("%s does not say %s", node.Address(), text)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}
