{{/* The head of an object: its name, and labels of its own beside those that Helm's tools look for. (list $ NAME LABELS) */}}
{{- define "ternmq.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 }}
namespace: {{ $root.Release.Namespace }}
labels:
  helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version }}
  app.kubernetes.io/managed-by: {{ $root.Release.Service }}
  app.kubernetes.io/instance: {{ $root.Release.Name }}
  app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
  {{- range $key, $value := index . 2 }}
  {{ $key }}: {{ $value | quote }}
  {{- end }}
{{- end }}

{{/* By which Services and policies find the pods of a component: proxy, broker, migration. */}}
{{- define "ternmq.labels" -}}
app.kubernetes.io/name: ternmq
app.kubernetes.io/component: {{ . }}
{{- end }}

{{/* (list $ broker) */}}
{{- define "ternmq.image" -}}
{{- $root := index . 0 -}}
{{- $image := index $root.Values.images (index . 1) -}}
image: {{ $image.repository }}:{{ $image.tag | default $root.Chart.AppVersion }}
imagePullPolicy: {{ $root.Values.imagePullPolicy }}
{{- end }}

{{/* Security settings of all pods: no process is root or can become it, and no pod gets a token. */}}
{{- define "ternmq.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false  # variables made of Services' names look like settings: each start would warn
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* `true`: with a volume that its group may write. */}}
{{- define "ternmq.user" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
{{- if . }}
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "ternmq.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* The password is apart from the URL, so that no log and no list of processes can show it. */}}
{{- define "ternmq.registry" -}}
- name: TERNMQ_REGISTRY
  valueFrom:
    secretKeyRef: {name: {{ .Values.registry.secretName }}, key: url}
- name: PGPASSWORD
  valueFrom:
    secretKeyRef: {name: {{ .Values.registry.secretName }}, key: password}
{{- end }}

{{/* Changed settings roll the pods that read them. (list $ broker) */}}
{{- define "ternmq.settings" -}}
{{- $root := index . 0 -}}
checksum/settings: {{ list $root.Values.settings.all (include (printf "ternmq.settings.%s" (index . 1)) $root) | toJson | sha256sum }}
{{- end }}

{{/* What is set by `settings` counts more than what the chart says for `guarded`. */}}
{{- define "ternmq.settings.broker" -}}
{{- $guarded := include "ternmq.guarded.cluster" . | fromYaml -}}
{{- merge (deepCopy .Values.settings.broker) (ternary $guarded dict .Values.guarded.enabled) | toYaml }}
{{- end }}

{{- define "ternmq.settings.proxy" -}}
{{- $guarded := merge (include "ternmq.guarded.cluster" . | fromYaml) (include "ternmq.guarded.proxy" . | fromYaml) -}}
{{- merge (deepCopy .Values.settings.proxy) (ternary $guarded dict .Values.guarded.enabled) | toYaml }}
{{- end }}

{{- define "ternmq.guarded.cluster" -}}
TERNMQ_CLUSTER_TLS_CERT: /etc/ternmq/cluster/tls.crt
TERNMQ_CLUSTER_TLS_KEY: /etc/ternmq/cluster/tls.key
TERNMQ_CLUSTER_TLS_CA: /etc/ternmq/cluster/ca.crt
{{- end }}

{{- define "ternmq.guarded.proxy" -}}
TERNMQ_TLS_CERT: /etc/ternmq/server/tls.crt
TERNMQ_TLS_KEY: /etc/ternmq/server/tls.key
# Probes and Prometheus go on in plain text at the port of HTTP (http_tls: optional), which the policies of the network open
# to Prometheus alone. It has no keys.
TERNMQ_METRICS_OPEN: "true"
TERNMQ_ACCESS_CONTROL: "true"
TERNMQ_SECRETS_KEY_FILE: /etc/ternmq/access/secrets-key
TERNMQ_INIT_USER: {{ .Values.guarded.initUser | quote }}
TERNMQ_INIT_SECRET_FILE: /etc/ternmq/access/init-secret
{{- end }}
