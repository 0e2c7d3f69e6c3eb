// SPDX-License-Identifier: Apache-2.0

// cel: evaluates expressions of admission policies. Standard input is a JSON array of
// {"expression": ..., "input": {"object", "oldObject", "request", "variables"}}; standard output is one of their
// values, where an error is {"error": ...}.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/google/cel-go/cel"
)

type question struct {
	Expression string
	Input      map[string]any
}

func evaluate(env *cel.Env, q question) (any, error) {
	ast, issues := env.Compile(q.Expression)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	program, err := env.Program(ast)
	if err != nil {
		return nil, err
	}
	value, _, err := program.Eval(q.Input)
	if err != nil {
		return nil, err
	}
	return value.Value(), nil
}

func main() {
	var questions []question
	env, err := cel.NewEnv(cel.OptionalTypes(), cel.Variable("object", cel.DynType),
		cel.Variable("oldObject", cel.DynType), cel.Variable("request", cel.DynType),
		cel.Variable("variables", cel.DynType))
	if err == nil {
		err = json.NewDecoder(os.Stdin).Decode(&questions)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	answers := make([]any, len(questions))
	for i, q := range questions {
		if answers[i], err = evaluate(env, q); err != nil {
			answers[i] = map[string]string{"error": err.Error()}
		}
	}
	json.NewEncoder(os.Stdout).Encode(answers)
}
