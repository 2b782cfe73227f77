package embedded_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/cluster/embedded"
)

// A cluster in one process: a server, a worker, and a client that finds it.
func Example() {
	s, err := embedded.Start(&server.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer embedded.Stop(s)
	link, err := cluster.DialNATS(cluster.NATSConfig{URL: s.ClientURL()})
	if err != nil {
		log.Fatal(err)
	}
	defer link.Close()
	worker, err := cluster.NewWorker(link, cluster.WorkerConfig{Name: "here", Memory: 64 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close()
	client, err := cluster.NewClient(link, cluster.ClientConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := client.Wait(context.Background(), 1); err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.Workers()[0].Worker)
	// Output: here
}
