#!/bin/sh
# Writes the plain manifest, which is the chart with its default values:
#
#	dist/kubernetes/manifest.sh >dist/kubernetes/tulle.yaml
set -eu
cd "$(dirname "$0")/tools"
echo "# The chart with its default values, written by make manifests: change that, not this."
# Of the chart's link to the alerts helm tells on standard error.
go tool helm template tulle ../chart/tulle --namespace tulle-system --set namespace.create=true | grep -v '^# Source: '
