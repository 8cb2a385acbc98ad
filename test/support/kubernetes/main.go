// What an API server says of manifests before it stores them, by its own code: strict decoding, defaults and validation
// of Kubernetes' kinds, with warnings; schemas, defaults and rules (CEL) of custom resources; and the strictest level
// of Pod Security that the pods of each meet.
//
//	kubernetes-validate CRD.yaml... < manifests
//
// Prints JSON, for each object {"object": "Kind name", "faults": [...], "security": "restricted"}.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	security "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	sigs "sigs.k8s.io/yaml"
)

// strategies are the checks at creation of each kind.
var strategies = map[string]rest.RESTCreateStrategy{
	"ConfigMap":               configmap.Strategy,
	"Deployment":              deployment.Strategy,
	"HorizontalPodAutoscaler": horizontalpodautoscaler.Strategy,
	"NetworkPolicy":           networkpolicy.Strategy,
	"PersistentVolumeClaim":   persistentvolumeclaim.Strategy,
	"PodDisruptionBudget":     poddisruptionbudget.Strategy,
	"PodTemplate":             podtemplate.Strategy,
	"Secret":                  secret.Strategy,
	"Service":                 service.Strategy,
	"StatefulSet":             statefulset.Strategy,
}

var ctx = request.WithRequestInfo(request.WithNamespace(context.Background(), "default"), &request.RequestInfo{})

// strict decodes one kind of Kubernetes as `fieldValidation=Strict` does, with defaults.
var strict = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDecoder()

type custom struct {
	structural *structural.Structural
	schema     validation.SchemaValidator
}

type verdict struct {
	Object   string   `json:"object"`
	Faults   []string `json:"faults"`
	Security string   `json:"security,omitempty"`
}

func (v *verdict) fault(of ...error) {
	for _, err := range of {
		v.Faults = append(v.Faults, err.Error())
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// definitions reads custom resource definitions.
func definitions(files []string) map[schema.GroupVersionKind]custom {
	known := map[schema.GroupVersionKind]custom{}
	for _, file := range files {
		for _, document := range documents(bytes.NewReader(must(os.ReadFile(file)))) {
			var definition apiextensionsv1.CustomResourceDefinition
			if err := sigs.Unmarshal(document, &definition); err != nil {
				log.Fatalf("%s: %v", file, err)
			}
			for _, version := range definition.Spec.Versions {
				var internal apiextensions.CustomResourceValidation
				if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(version.Schema, &internal, nil); err != nil {
					log.Fatalf("%s: %v", file, err)
				}
				checked, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
				kind := schema.GroupVersionKind{Group: definition.Spec.Group, Version: version.Name, Kind: definition.Spec.Names.Kind}
				known[kind] = custom{must(structural.NewStructural(internal.OpenAPIV3Schema)), must(checked, err)}
			}
		}
	}
	return known
}

func documents(from io.Reader) (all [][]byte) {
	reader := yaml.NewYAMLReader(bufio.NewReader(from))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		all = append(all, must(document, err))
	}
}

// builtIn checks an object of Kubernetes, and the pods that it makes.
func builtIn(kind string, data []byte, v *verdict) {
	strategy, known := strategies[kind]
	if !known {
		v.fault(errors.New("no strategy of this kind"))
		return
	}
	object, _, err := strict.Decode(data, nil, nil)
	if err != nil {
		v.fault(err)
		return
	}
	if service, isService := object.(*core.Service); isService {
		allocate(&service.Spec)
	}
	rest.FillObjectMetaSystemFields(must(meta.Accessor(object)))
	if err := rest.BeforeCreate(strategy, ctx, object); err != nil {
		v.fault(err)
	}
	for _, warning := range strategy.WarningsOnCreate(ctx, object) {
		v.fault(errors.New("warning: " + warning))
	}
}

// allocate fills in what the API server takes from its ranges.
func allocate(spec *core.ServiceSpec) {
	if spec.ClusterIP != "" {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if spec.ExternalTrafficPolicy == core.ServiceExternalTrafficPolicyLocal {
		spec.HealthCheckNodePort = 32000
	}
}

// check checks a custom resource.
func (c custom) check(object map[string]any, v *verdict) {
	pruned := pruning.PruneWithOptions(object, c.structural, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, path := range pruned {
		v.fault(fmt.Errorf("unknown field %q", path))
	}
	defaulting.Default(object, c.structural)
	for _, err := range validation.ValidateCustomResource(nil, object, c.schema) {
		v.fault(err)
	}
	if rules := cel.NewValidator(c.structural, true, celconfig.PerCallLimit); rules != nil {
		faults, _ := rules.Validate(ctx, field.NewPath(""), c.structural, object, nil, celconfig.RuntimeCELCostBudget)
		for _, err := range faults {
			v.fault(err)
		}
	}
}

// templates are the pod templates below an object, wherever it has them.
func templates(of any) (found []map[string]any) {
	at, isMap := of.(map[string]any)
	if !isMap {
		return nil
	}
	for key, value := range at {
		inner, _ := value.(map[string]any)
		spec, _ := inner["spec"].(map[string]any)
		if _, isPod := spec["containers"]; isPod && (key == "template" || key == "leaderTemplate" || key == "workerTemplate") {
			found = append(found, inner)
		} else {
			found = append(found, templates(value)...)
		}
	}
	return found
}

func main() {
	log.SetFlags(0)
	known := definitions(os.Args[1:])
	evaluator := must(policy.NewEvaluator(policy.DefaultChecks(), nil))
	verdicts := []verdict{}
	for _, document := range documents(os.Stdin) {
		var whole unstructured.Unstructured
		// Whole numbers stay such, for the rules.
		if err := whole.UnmarshalJSON(must(sigs.YAMLToJSONStrict(document))); err != nil {
			log.Fatal(err)
		}
		object := whole.Object
		v := verdict{Object: whole.GetKind() + " " + whole.GetName(), Faults: []string{}}
		definition, isCustom := known[whole.GroupVersionKind()]
		if !isCustom {
			builtIn(whole.GetKind(), document, &v)
		}
		for _, template := range templates(object) {
			if isCustom {
				// Their definitions hold a copy of a pod's schema; the API server checks the pod when it is made.
				pod := map[string]any{"apiVersion": "v1", "kind": "PodTemplate", "metadata": map[string]any{"name": "pod"}, "template": template}
				builtIn("PodTemplate", must(json.Marshal(pod)), &v)
			}
			var typed v1.PodTemplateSpec
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &typed); err != nil {
				v.fault(err)
			}
			level := level(evaluator, &typed)
			if v.Security == "" || security.CompareLevels(level, security.Level(v.Security)) < 0 {
				v.Security = string(level)
			}
		}
		if isCustom {
			definition.check(object, &v)
		}
		verdicts = append(verdicts, v)
	}
	if err := json.NewEncoder(os.Stdout).Encode(verdicts); err != nil {
		log.Fatal(err)
	}
}

func level(evaluator policy.Evaluator, pod *v1.PodTemplateSpec) security.Level {
	for _, level := range []security.Level{security.LevelRestricted, security.LevelBaseline} {
		results := evaluator.EvaluatePod(security.LevelVersion{Level: level, Version: security.LatestVersion()}, &metav1.ObjectMeta{}, &pod.Spec)
		if policy.AggregateCheckResults(results).Allowed {
			return level
		}
	}
	return security.LevelPrivileged
}
