// Command terraform-provider-fault serves the test provider of package faultprovider to tofu,
// which starts it; there is nothing to see when run by hand.
package main

import (
	"context"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/holdfast-run/holdfast/tests/provider/faultprovider"
)

func main() {
	err := providerserver.Serve(context.Background(), faultprovider.New, providerserver.ServeOpts{
		Address: faultprovider.Address,
	})
	if err != nil {
		log.Fatal(err)
	}
}
