{{- define "assay.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-assay" (.Release.Name | trunc 34) }}{{ end }}
{{- end }}

{{- define "assay.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "assay.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "assay.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{/* Labels that select: call with (list . "ingest"). */}}
{{- define "assay.selector" -}}
app.kubernetes.io/name: assay
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "assay.labels" -}}
{{ include "assay.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version }}
{{- end }}

{{- define "assay.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "assay.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* What every container has: image, security, memory for /tmp and the data folder. */}}
{{- define "assay.container" -}}
image: {{ include "assay.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- include "assay.containerSecurity" . | nindent 2 }}
{{- end }}

{{- define "assay.databaseEnv" -}}
- {name: ASSAY_DATABASE_URL_FILE, value: /run/secrets/assay-database/url}
{{- if .Values.archive.existingClaim }}
- {name: ASSAY_ARCHIVE, value: /var/lib/assay-archive}
{{- end }}
{{- end }}

{{- define "assay.mounts" -}}
- {name: data, mountPath: /var/lib/assay}
- {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "assay.databaseMounts" -}}
{{ include "assay.mounts" . }}
- {name: database, mountPath: /run/secrets/assay-database, readOnly: true}
{{- if .Values.archive.existingClaim }}
- {name: archive, mountPath: /var/lib/assay-archive}
{{- end }}
{{- end }}

{{- define "assay.tmpVolume" -}}
- {name: tmp, emptyDir: {sizeLimit: 256Mi}}
{{- end }}

{{- define "assay.databaseVolumes" -}}
{{ include "assay.tmpVolume" . }}
- name: database
  secret:
    secretName: {{ .Values.database.existingSecret }}
    defaultMode: 0440
    items: [{key: {{ .Values.database.key | quote }}, path: url}]
{{- if .Values.archive.existingClaim }}
- {name: archive, persistentVolumeClaim: {claimName: {{ .Values.archive.existingClaim | quote }}}}
{{- end }}
{{- end }}

{{- define "assay.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Probes of the service: call with the root; the start may make tables of the whole log anew. */}}
{{- define "assay.serviceProbes" -}}
startupProbe:
  httpGet: {path: /health/live, port: http}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /health/live, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /health/ready, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
lifecycle:
  # Endpoints forget the pod before it stops accepting.
  preStop: {exec: {command: [sleep, "5"]}}
{{- end }}
