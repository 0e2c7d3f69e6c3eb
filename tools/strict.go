// SPDX-License-Identifier: Apache-2.0

// strict [--same]: decodes the objects of standard input (YAML, divided by "---") by Kubernetes' own types, strictly: an
// unknown or repeated field is an error. With --same so is a value that does not come out again as it went in (a
// quantity in another form than Kubernetes' own). Kinds that are not Kubernetes' own are named and passed over.
package main

import (
	"bytes"
	encoding "encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	rbac "k8s.io/api/rbac/v1"
	resource "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"
)

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

// lost names what of a is not in b, whose empty fields Kubernetes adds; "": nothing.
func lost(path string, a, b any) string {
	switch a := a.(type) {
	case map[string]any:
		m, _ := b.(map[string]any)
		for key, value := range a {
			if what := lost(path+"."+key, value, m[key]); what != "" {
				return what
			}
		}
		return ""
	case []any:
		l, _ := b.([]any)
		if len(l) != len(a) {
			return path
		}
		for i := range a {
			if what := lost(fmt.Sprintf("%s[%d]", path, i), a[i], l[i]); what != "" {
				return what
			}
		}
		return ""
	}
	if a == nil || reflect.DeepEqual(a, b) {
		return ""
	}
	return fmt.Sprintf("%s: %v is %v", path, a, b)
}

// changed names what of the text is not in the object that it was decoded to; "": nothing.
func changed(text []byte, object runtime.Object) (string, error) {
	var before, after any

	again, err := encoding.Marshal(object)
	if err != nil {
		return "", err
	}
	if err := yaml.Unmarshal(text, &before); err != nil {
		return "", err
	}
	if err := yaml.Unmarshal(again, &after); err != nil {
		return "", err
	}
	return lost("", before, after), nil
}

func main() {
	same := len(os.Args) > 1 && os.Args[1] == "--same"
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
		into, kind, err := decoder.Decode(object, nil, nil)
		if runtime.IsNotRegisteredError(err) {
			fmt.Printf("passed over: %v\n", kind)
		} else if err != nil {
			fail("%v\n%s", err, object)
		} else {
			decoded++
			if what, err := changed(object, into); same && (err != nil || what != "") {
				fail("%s %v\n%s", what, err, object)
			}
		}
	}
	fmt.Printf("decoded: %d\n", decoded)
}
