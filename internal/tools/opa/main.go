// The command opa evaluates rules on a plan, as `opa eval` does, whose command line takes minutes more to build:
//
//	opa <rules> <plan>
//
// It prints what data.main says, as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/open-policy-agent/opa/v1/rego"
)

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 3 {
		return fmt.Errorf("usage: %s <rules> <plan>", arguments[0])
	}
	text, err := os.ReadFile(arguments[2])
	if err != nil {
		return err
	}
	var plan any
	if err := json.Unmarshal(text, &plan); err != nil {
		return err
	}
	said, err := rego.New(rego.Query("data.main"), rego.Load(arguments[1:2], nil), rego.Strict(true),
		rego.Input(plan)).Eval(context.Background())
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(said[0].Expressions[0].Value)
}
