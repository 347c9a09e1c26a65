{{- define "lakebed.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "lakebed.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}-lakebed
{{- end }}
