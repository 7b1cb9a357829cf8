#!/bin/sh
# The first process of a container: installs what the apps of MCP_APPS need, then becomes the service.
set -eu

wanted="${MCP_APPS_PATH:-}/requirements.txt"
if [ -f "$wanted" ]; then
  # One folder for each version of both files, made in one step: containers that start together share it.
  installed="${PACKAGES:-/packages}/$(cat requirements.txt "$wanted" | sha256sum | cut -c 1-16)"
  if [ ! -d "$installed" ]; then
    echo "Installing $wanted" >&2
    draft="$(mktemp -d "$installed.XXXXXX")"
    trap 'rm -rf "$draft"' EXIT
    # What contradicts the versions of this project is refused here, and not found out by a call.
    python -m pip install --quiet --disable-pip-version-check --target "$draft" \
      --constraint requirements.txt --requirement "$wanted"
    chmod 0755 "$draft"
    mv -T "$draft" "$installed" || { rm -rf "$draft" && [ -d "$installed" ]; }
  fi
  export PYTHONPATH="$installed${PYTHONPATH:+:$PYTHONPATH}"
fi

exec "$@"
