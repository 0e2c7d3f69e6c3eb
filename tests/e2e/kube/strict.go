// SPDX-License-Identifier: Apache-2.0

// strict: objects of Kubernetes, one a line of JSON on standard input, decoded by Kubernetes' own types:
// each field must be one of the kind's, by its exact name, once, and come out again as it went in.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"

	core "k8s.io/api/core/v1"
	resource "k8s.io/api/resource/v1"
	strict "sigs.k8s.io/json"
)

type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func typed(h head) any {
	switch h {
	case head{"resource.k8s.io/v1", "ResourceSlice"}:
		return &resource.ResourceSlice{}
	case head{"resource.k8s.io/v1", "ResourceClaim"}:
		return &resource.ResourceClaim{}
	case head{"resource.k8s.io/v1", "ResourceClaimTemplate"}:
		return &resource.ResourceClaimTemplate{}
	case head{"resource.k8s.io/v1", "DeviceClass"}:
		return &resource.DeviceClass{}
	case head{"v1", "Pod"}:
		return &core.Pod{}
	}
	return nil
}

// lost names what of a is not in b, whose empty fields Kubernetes adds.
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
	if reflect.DeepEqual(a, b) {
		return ""
	}
	return fmt.Sprintf("%s: %v is %v", path, a, b)
}

func check(line []byte) error {
	var h head
	var before, after any

	if err := json.Unmarshal(line, &h); err != nil {
		return err
	}
	object := typed(h)
	if object == nil {
		return fmt.Errorf("%v is not known here", h)
	}
	wrong, err := strict.UnmarshalStrict(line, object)
	if err != nil {
		return err
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%v", wrong)
	}
	again, err := json.Marshal(object)
	if err != nil {
		return err
	}
	json.Unmarshal(line, &before)
	json.Unmarshal(again, &after)
	if what := lost("", before, after); what != "" {
		return fmt.Errorf("%s", what)
	}
	return nil
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 4<<20)
	n := 0
	for ; in.Scan(); n++ {
		if err := check(in.Bytes()); err != nil {
			fmt.Printf("object %d: %v\n", n, err)
			os.Exit(1)
		}
	}
	if n == 0 {
		fmt.Println("there is no object")
		os.Exit(1)
	}
	fmt.Printf("%d objects\n", n)
}
