{{- define "tulle.selector" -}}
app.kubernetes.io/name: tulle
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tulle.labels" -}}
{{ include "tulle.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "tulle.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "tulle.controller.selector" -}}
app.kubernetes.io/name: tulle-controller
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tulle.controller.labels" -}}
{{ include "tulle.controller.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{/* Refuses values of a cloud that do not go together. */}}
{{- define "tulle.controller.checkCloud" -}}
{{- $c := .Values.controller -}}
{{- $on := $c.cloudProvider -}}
{{- if not $on -}}
{{- range list "clusterName" "cloudConfig" "cloudConfigSecret" }}{{ if get $c . }}{{ fail (printf "controller.%s has no effect without controller.cloudProvider: set it to aws, azure or gce" .) }}{{ end }}{{ end -}}
{{- end -}}
{{- if and $c.cloudConfig $c.cloudConfigSecret }}{{ fail "controller.cloudConfig and controller.cloudConfigSecret are both set: leave one of them out" }}{{ end -}}
{{- $file := or $c.cloudConfig $c.cloudConfigSecret -}}
{{- if and (eq $on "aws") (not $c.clusterName) (not $file) }}{{ fail "controller.clusterName is empty: set it to the NAME of the tags kubernetes.io/cluster/NAME" }}{{ end -}}
{{- if and (eq $on "gce") (not $c.clusterName) }}{{ fail "controller.clusterName is empty: set it to what the names of the routes begin with; that of Google's own controller is kubernetes, unless it was set" }}{{ end -}}
{{- if and (eq $on "gce") (not (regexMatch "^[a-z][a-z0-9-]*$" $c.clusterName)) }}{{ fail (printf "controller.clusterName: %s is not the beginning of a route's name: use lower case letters, digits and dashes, and a letter first" $c.clusterName) }}{{ end -}}
{{- if and (eq $on "azure") $c.clusterName }}{{ fail "controller.clusterName has no effect with controller.cloudProvider=azure: leave it out" }}{{ end -}}
{{- if and (eq $on "azure") (not $file) }}{{ fail "controller.cloudProvider=azure needs the text of azure.json: set controller.cloudConfigSecret, or controller.cloudConfig if the file has no secret" }}{{ end -}}
{{- if eq $on "azure" -}}
{{- $settings := fromYaml $c.cloudConfig -}}
{{- if hasKey $settings "Error" }}{{ fail "controller.cloudConfig: the text is neither JSON nor YAML, and may have a secret: correct it" }}{{ end -}}
{{- range $name, $value := $settings -}}
{{- if and (has (lower $name) (list "aadclientsecret" "aadclientcertpassword")) $value (ne (toString $value) "msi") }}{{ fail (printf "controller.cloudConfig: %s would be in a ConfigMap: put the file into a Secret, and name that in controller.cloudConfigSecret" $name) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if and $on (ne $on "gce") (include "tulle.controller.alias" .) }}{{ fail (printf "controller.allocatorType: %s is Google's, and controller.cloudProvider is %s: use RangeAllocator" $c.allocatorType $on) }}{{ end -}}
{{- end }}

{{/* The names of the controllers that run, separated by spaces. */}}
{{- define "tulle.controller.running" -}}
{{- $c := .Values.controller -}}
{{- include "tulle.controller.checkCloud" . -}}
{{- $names := list -}}
{{- range list "node-ipam-controller nodeipam" "cloud-node-controller cloud-node" "cloud-node-lifecycle-controller cloud-node-lifecycle" "node-route-controller route" "service-lb-controller service" "awscluster-controller awscluster" "cluster-controller cluster" -}}
{{- $name := splitList " " . | first -}}
{{- $alias := splitList " " . | last -}}
{{- $on := or (has $name $c.controllers) (has $alias $c.controllers) -}}
{{- $off := or (has (print "-" $name) $c.controllers) (has (print "-" $alias) $c.controllers) -}}
{{- $lacks := "" -}}
{{- if has $alias (list "nodeipam" "awscluster" "cluster") }}{{/* works without a cloud */}}
{{- else if not $c.cloudProvider }}{{ $lacks = "has no work without controller.cloudProvider" }}
{{- else if and (eq $alias "service") (ne $c.cloudProvider "aws") }}{{ $lacks = print "does not run with controller.cloudProvider=" $c.cloudProvider }}
{{- else if and (eq $alias "route") (include "tulle.controller.alias" $) }}{{ $lacks = printf "has no work with controller.allocatorType=%s: Google itself routes alias ranges" $c.allocatorType }}{{ end -}}
{{- $works := not $lacks -}}
{{- if and $on $lacks }}{{ fail (printf "controller.controllers: %s %s" $alias $lacks) }}{{ end -}}
{{- if and $works (or $on (and (has "*" $c.controllers) (not $off) (not (has $alias (list "service" "awscluster" "cluster"))))) }}{{ $names = append $names $name }}{{ end -}}
{{- end -}}
{{- if and (include "tulle.controller.alias" .) $names (not (has "node-ipam-controller" $names)) }}{{ fail (printf "controller.allocatorType: %s has no effect, because controller.controllers leaves nodeipam out: use RangeAllocator" $c.allocatorType) }}{{ end -}}
{{- if not $names }}{{ fail "controller.controllers turns every controller off: use *, or name one" }}{{ end -}}
{{- join " " $names -}}
{{- end }}

{{/* Whether podCIDRs are alias ranges of Google: "true", or "". */}}
{{- define "tulle.controller.alias" -}}
{{- if has .Values.controller.allocatorType (list "CloudAllocator" "IPAMFromCloud" "IPAMFromCluster") }}true{{ end -}}
{{- end }}

{{/* Whether it asks a cloud: "true", or "". */}}
{{- define "tulle.controller.cloud" -}}
{{- $names := .Values.controller.controllers -}}
{{- if or .Values.controller.cloudProvider (include "tulle.controller.alias" .) (has "awscluster" $names) (has "awscluster-controller" $names) }}true{{ end -}}
{{- end }}

{{/* Whether it sets the condition NetworkUnavailable: "true", or "". */}}
{{- define "tulle.controller.conditions" -}}
{{- if or (has "node-route-controller" (splitList " " (include "tulle.controller.running" .))) (include "tulle.controller.alias" .) }}true{{ end -}}
{{- end }}

{{/* The ranges of podCIDRs: those of the network, if the controller needs some. */}}
{{- define "tulle.controller.ranges" -}}
{{- $c := .Values.controller -}}
{{- if $c.clusterCIDR -}}
{{ $c.clusterCIDR }}
{{- else if and (has $c.allocatorType (list "RangeAllocator" "IPAMFromCluster")) (not $c.nodePools) -}}
{{ compact (list .Values.network.ipv4 .Values.network.ipv6) | join "," }}
{{- end -}}
{{- end }}

{{/* The network's config, as flannel has it in net-conf.json. */}}
{{- define "tulle.config" -}}
{{- $n := .Values.network -}}
{{- if not (or $n.ipv4 $n.ipv6) }}{{ fail "network.ipv4 and network.ipv6 are both empty: give the network one of them" }}{{ end -}}
{{- $c := dict "Backend" $n.backend -}}
{{- if $n.ipv4 }}{{ $_ := set $c "Network" $n.ipv4 }}{{ else }}{{ $_ := set $c "EnableIPv4" false }}{{ end -}}
{{- if $n.ipv6 }}{{ $_ := set $c "EnableIPv6" true }}{{ $_ := set $c "IPv6Network" $n.ipv6 }}{{ end -}}
{{- mustMergeOverwrite $c (deepCopy $n.config) | mustToPrettyJson -}}
{{- end }}

{{/* The type of the network's backend, in lower case as the daemon reads it. */}}
{{- define "tulle.backend" -}}
{{- $type := lower (include "tulle.config" . | fromJson).Backend.Type -}}
{{- if and (eq $type "extension") (not .Values.allowExtension) }}{{ fail "network.backend: the commands of the backend extension run as root: set allowExtension to true if you trust all who may write the ConfigMap tulle" }}{{ end -}}
{{- $type -}}
{{- end }}

{{/* Where this host's kubelet probes for health what serves it at ip and port. */}}
{{- define "tulle.probe" -}}
host: {{ if eq .ip "0.0.0.0" }}127.0.0.1{{ else if eq .ip "::" }}"::1"{{ else }}{{ .ip | quote }}{{ end }}
port: {{ .port }}
{{- end }}

{{/* The variables that name the API server. */}}
{{- define "tulle.apiServer" -}}
- name: KUBERNETES_SERVICE_HOST
  value: {{ .host | quote }}
- name: KUBERNETES_SERVICE_PORT
  value: {{ .port | quote }}
{{- end }}

{{/* The volume of a short-lived token. */}}
{{- define "tulle.token" -}}
- name: token
  projected:
    sources:
      - serviceAccountToken:
          path: token
          expirationSeconds: 3600
      - configMap:
          name: kube-root-ca.crt
          items:
            - key: ca.crt
              path: ca.crt
{{- end }}
