// Runs Google's in-memory Spanner at the address that is given, until it is killed.
package main

import (
	"log"
	"os"

	"cloud.google.com/go/spanner/spannertest"
)

func main() {
	server, err := spannertest.NewServer(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	server.SetLogger(func(string, ...interface{}) {})
	select {}
}
