// SPDX-License-Identifier: Apache-2.0

// strict: decodes the objects of standard input (YAML, divided by "---") by Kubernetes' own types, strictly: an
// unknown or repeated field is an error. Kinds that are not Kubernetes' own are named and passed over.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	rbac "k8s.io/api/rbac/v1"
	resource "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
)

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{admissionregistration.AddToScheme, apps.AddToScheme,
		core.AddToScheme, networking.AddToScheme, rbac.AddToScheme, resource.AddToScheme} {
		if err := add(scheme); err != nil {
			fail("%v", err)
		}
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme,
		json.SerializerOptions{Yaml: true, Strict: true})
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		fail("%v", err)
	}
	decoded := 0
	for _, object := range bytes.Split(text, []byte("\n---\n")) {
		_, kind, err := decoder.Decode(object, nil, nil)
		if runtime.IsNotRegisteredError(err) {
			fmt.Printf("passed over: %v\n", kind)
		} else if err != nil {
			fail("%v\n%s", err, object)
		} else {
			decoded++
		}
	}
	fmt.Printf("decoded: %d\n", decoded)
}
