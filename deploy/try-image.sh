#!/usr/bin/env bash
# Run an image as it is meant to run, and ask it: bash deploy/try-image.sh IMAGE
set -euo pipefail
image=$1
engine=${ENGINE:-docker}
options=(--read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges)

"$engine" image inspect --format '{{.Size}} bytes' "$image"
test "$("$engine" run --rm "${options[@]}" --entrypoint id "$image" -u)" = 10001
"$engine" run --rm "${options[@]}" "$image" --version

data=assay-try-$$
container=
trap 'test -z "$container" || "$engine" rm --force "$container" >/dev/null; "$engine" volume rm --force "$data" >/dev/null' EXIT
# A service that other machines reach does not start without a token.
token=$("$engine" run --rm "${options[@]}" --volume "$data:/var/lib/assay" "$image" token create try --scope read)
container=$("$engine" run --detach "${options[@]}" --volume "$data:/var/lib/assay" "$image")
for _ in $(seq 120); do
  state=$("$engine" inspect --format '{{.State.Health.Status}}' "$container")
  if [ "$state" = healthy ]; then break; fi
  sleep 1
done
if [ "$state" != healthy ]; then "$engine" logs "$container"; exit 1; fi
"$engine" exec --env "ASSAY_TOKEN=$token" "$container" assay recommend bert-base-uncased --top 3
"$engine" stop --time 30 "$container" >/dev/null
test "$("$engine" inspect --format '{{.State.ExitCode}}' "$container")" = 0
