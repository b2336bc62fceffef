package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"os"
)

// priceArgument makes this program the cost command of the runner of a server of its own: where
// runs have an estimate, their status is another one than most tests wait for.
const (
	priceArgument = "price"
	pricedServer  = "costs" // the word for it in alone.txt
)

// pricePlan reads the plan that a runner names and prints what it would cost, in the form of Infracost: each
// resource that it knows costs as much a month. Of the others it says that it does not know.
func pricePlan(plan io.Reader, out io.Writer) error {
	type resource struct{ Mode, Type string }
	var read struct {
		PlannedValues struct {
			Root struct {
				Resources []resource
			} `json:"root_module"`
		} `json:"planned_values"`
		PriorState struct {
			Values struct {
				Root struct {
					Resources []resource
				} `json:"root_module"`
			}
		} `json:"prior_state"`
	}
	if err := json.NewDecoder(plan).Decode(&read); err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	cost := func(list []resource) (detected, supported int, total string) {
		for _, r := range list {
			if r.Mode != "managed" {
				continue
			}
			if detected++; r.Type == "null_resource" {
				supported++
			}
		}
		return detected, supported, big.NewRat(int64(supported)*5, 4).FloatString(2)
	}
	detected, supported, total := cost(read.PlannedValues.Root.Resources)
	_, _, past := cost(read.PriorState.Values.Root.Resources)
	return json.NewEncoder(out).Encode(map[string]any{
		"version": "0.2", "currency": "USD", "totalMonthlyCost": total, "pastTotalMonthlyCost": past,
		"summary": map[string]int{"totalDetectedResources": detected, "totalSupportedResources": supported},
	})
}

func price() error {
	plan, err := os.Open(os.Getenv("PLAN_JSON"))
	if err != nil {
		return err
	}
	defer plan.Close()
	return pricePlan(plan, os.Stdout)
}
