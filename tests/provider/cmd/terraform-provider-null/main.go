// Command terraform-provider-null serves the test provider of package nullprovider to tofu,
// which starts it; there is nothing to see when run by hand.
package main

import (
	"context"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/holdfast-run/holdfast/tests/provider/nullprovider"
)

func main() {
	err := providerserver.Serve(context.Background(), nullprovider.New, providerserver.ServeOpts{
		Address: nullprovider.Address,
	})
	if err != nil {
		log.Fatal(err)
	}
}
