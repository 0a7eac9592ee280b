{{/* Labels that only an installed chart has; the name stands in the manifests. */}}
{{- define "capstan.labels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Without an election every replica would decide, and several give the same room away. */}}
{{- define "capstan.whoDecides" -}}
{{- $elects := toString .Values.config.leaderElection.leaderElect }}
{{- $replicas := int .Values.replicas }}
{{- if and (eq $elects "false") (gt $replicas 1) }}
{{- $says := "config.leaderElection.leaderElect is false and replicas is %d: each would decide" }}
{{- $fix := "by itself; set replicas to 1, or leave the election on" }}
{{- fail (printf "%s %s" (printf $says $replicas) $fix) }}
{{- end }}
{{- end }}
