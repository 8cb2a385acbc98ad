{{/* The objects of a folder below files/, as its kustomization lists them: {"objects": […]}. Images have their names. */}}
{{- define "svc.folder" -}}
{{- $root := .root -}}
{{- $folder := printf "files/%s" .folder -}}
{{- $kustomization := $root.Files.Get (printf "%s/kustomization.yaml" $folder) | required (printf "there is no %s" $folder) | fromYaml -}}
{{- $objects := list -}}
{{- range $kustomization.resources -}}
{{- if hasSuffix ".yaml" . -}}
{{- range splitList "\n---\n" ($root.Files.Get (printf "%s/%s" $folder .)) -}}
{{- $objects = append $objects (fromYaml .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $kustomization.configMapGenerator -}}
{{- $data := dict -}}
{{- range .files -}}{{- $_ := set $data . ($root.Files.Get (printf "%s/%s" $folder .)) -}}{{- end -}}
{{- range .literals -}}{{- $pair := splitn "=" 2 . -}}{{- $_ := set $data $pair._0 $pair._1 -}}{{- end -}}
{{- $objects = append $objects (dict "apiVersion" "v1" "kind" "ConfigMap" "metadata" (dict "name" .name) "data" $data) -}}
{{- end -}}
{{- $images := dict -}}
{{- range $kustomization.images -}}{{- $_ := set $images .name (printf "%s:%s" .newName .newTag) -}}{{- end -}}
{{- range $objects -}}
{{- $spec := dig "spec" "template" "spec" dict . -}}
{{- range concat (default list $spec.initContainers) (default list $spec.containers) -}}
{{- $image := get $images .image | default .image | replace "registry.example/" (printf "%s/" $root.Values.registry) -}}
{{- $_ := set . "image" (get $root.Values.images .name | default $image) -}}
{{- end -}}
{{- end -}}
{{- dict "objects" $objects | toJson -}}
{{- end -}}

{{/* The objects of an engine: those of files/engines/KIND and its Service and budget, named and labelled. */}}
{{- define "svc.engine" -}}
{{- $engine := .engine -}}
{{- $kind := .engine.kind -}}
{{- $objects := list -}}
{{- $labels := dict "svc/model" $engine.env.MODEL_ID -}}
{{- range list "engines/node" (printf "engines/%s" $kind) -}}
{{- $objects = concat $objects (include "svc.folder" (dict "root" $.root "folder" .) | fromJson).objects -}}
{{- end -}}
{{- range $objects -}}
{{- $_ := set .metadata "name" (printf "%s-%s" $.name .metadata.name) -}}
{{- $_ := set .metadata "labels" $labels -}}
{{- if eq .metadata.name (printf "%s-model" $.name) -}}
{{- $alone := ternary (dict "HANDOVER_GRACE_MS" "600000") dict (eq (int $engine.nodes) 1) -}}
{{- $_ := set . "data" (mergeOverwrite .data $alone $engine.env) -}}
{{- else if eq .kind "Service" -}}
{{- $_ := merge .spec.selector $labels -}}
{{- else if eq .kind "PodDisruptionBudget" -}}
{{- $_ := merge .spec.selector.matchLabels $labels -}}
{{- else if eq .kind "Deployment" -}}
{{- $_ := set .spec "replicas" $engine.nodes -}}
{{- $pod := .spec.template -}}
{{- $_ := merge .spec.selector.matchLabels $labels -}}
{{- $_ := merge $pod.metadata.labels $labels -}}
{{- range $pod.spec.topologySpreadConstraints -}}{{- $_ := merge .labelSelector.matchLabels $labels -}}{{- end -}}
{{- range $pod.spec.volumes -}}
{{- if .configMap -}}{{- $_ := set .configMap "name" (printf "%s-%s" $.name .configMap.name) -}}{{- end -}}
{{- end -}}
{{- range concat (default list $pod.spec.initContainers) $pod.spec.containers -}}
{{- range .envFrom -}}{{- $_ := set .configMapRef "name" (printf "%s-%s" $.name .configMapRef.name) -}}{{- end -}}
{{- if and (eq .name "node") $engine.image -}}{{- $_ := set . "image" $engine.image -}}{{- end -}}
{{- end -}}
{{- $runs := first (concat (default list $pod.spec.initContainers) $pod.spec.containers) -}}
{{- if $engine.args -}}{{- $_ := set $runs "args" (concat $runs.args $engine.args) -}}{{- end -}}
{{- with $engine.gpus -}}
{{- $_ := set $runs.resources.limits "nvidia.com/gpu" (toString .) -}}
{{- if hasKey $runs.resources.requests "nvidia.com/gpu" -}}{{- $_ := set $runs.resources.requests "nvidia.com/gpu" (toString .) -}}{{- end -}}
{{- $_ := set $pod.spec "tolerations" (list (dict "key" "nvidia.com/gpu" "operator" "Exists" "effect" "NoSchedule")) -}}
{{- end -}}
{{- with $engine.nodeSelector -}}{{- $_ := set $pod.spec "nodeSelector" . -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- dict "objects" $objects | toJson -}}
{{- end -}}

{{/* gateway.yaml with the clusters of engines and the configuration of values; as it stands without either. */}}
{{- define "svc.gatewayConfig" -}}
{{- $values := .root.Values -}}
{{- if or $values.engines $values.gateway.config -}}
{{- $config := fromYaml .text -}}
{{- $tls := (first $config.clusters).tls -}}
{{- $own := list -}}
{{- $models := list -}}
{{- range $name, $engine := $values.engines -}}
{{- $models = append $models $engine.env.MODEL_ID -}}
{{- $own = append $own (dict "model" $engine.env.MODEL_ID "type" "strict_dns" "address" (printf "%s-engine:50051" $name) "expectedEndpoints" $engine.nodes "tls" $tls) -}}
{{- end -}}
{{- range $config.clusters -}}{{- if not (has .model $models) -}}{{- $own = append $own . -}}{{- end -}}{{- end -}}
{{- $_ := set $config "clusters" $own -}}
{{- mergeOverwrite $config $values.gateway.config | toYaml -}}
{{- else -}}
{{- .text -}}
{{- end -}}
{{- end -}}
