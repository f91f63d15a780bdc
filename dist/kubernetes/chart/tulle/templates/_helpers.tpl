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

{{/* The network's config, as flannel has it in net-conf.json. */}}
{{- define "tulle.config" -}}
{{- $n := .Values.network -}}
{{- if not (or $n.ipv4 $n.ipv6) }}{{ fail "network.ipv4 and network.ipv6 are both empty: give the network one of them" }}{{ end -}}
{{- $c := dict "Backend" $n.backend -}}
{{- if $n.ipv4 }}{{ $_ := set $c "Network" $n.ipv4 }}{{ else }}{{ $_ := set $c "EnableIPv4" false }}{{ end -}}
{{- if $n.ipv6 }}{{ $_ := set $c "EnableIPv6" true }}{{ $_ := set $c "IPv6Network" $n.ipv6 }}{{ end -}}
{{- mustMergeOverwrite $c (deepCopy $n.config) | mustToPrettyJson -}}
{{- end }}

{{/* The address that this host's kubelet probes for health. */}}
{{- define "tulle.probe" -}}
{{- $ip := .Values.health.ip -}}
host: {{ if eq $ip "0.0.0.0" }}127.0.0.1{{ else if eq $ip "::" }}"::1"{{ else }}{{ $ip | quote }}{{ end }}
port: {{ .Values.health.port }}
{{- end }}
