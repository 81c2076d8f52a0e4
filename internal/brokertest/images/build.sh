#!/usr/bin/env bash
# Builds the RabbitMQ container images that the tests run against, from Debian suites instead of a
# registry, under the tags that the official images have:
#
#   bookworm  RabbitMQ 3.10.8   rabbitmq:3.10-management
#   trixie    RabbitMQ 4.0.5    rabbitmq:4.0-management
#   forky     RabbitMQ 4.3.6    rabbitmq:4.3-management  rabbitmq:4-management
#
# usage: build.sh [3.10|4.0|4.3|4]...     no argument: all of them
#
#   FORCE=1          build existing images, too
#   DEBIAN_MIRROR    default: the mirror of this machine's apt, or http://deb.debian.org/debian
#   DEBIAN_KEYRING   default: /usr/share/keyrings/debian-archive-keyring.gpg
#
# It needs docker, and mmdebstrap with the Debian archive's keys, which it installs when it is root.
set -euo pipefail

main() {
	docker version >/dev/null || die "no Docker daemon answers"
	[ $# -gt 0 ] || set -- 3.10 4.0 4.3
	local version
	for version; do
		case $version in
		3.10) build bookworm rabbitmq:3.10-management ;;
		4.0) build trixie rabbitmq:4.0-management ;;
		4.3 | 4) build forky rabbitmq:4.3-management rabbitmq:4-management ;;
		*) die "no suite of Debian is known to carry RabbitMQ $version; known: 3.10, 4.0, 4.3" ;;
		esac
	done
}

# build SUITE TAG [ALIAS...]
build() {
	local suite=$1 tag=$2
	shift 2
	if [ "${FORCE:-}" = 1 ] || ! docker image inspect "$tag" >/dev/null 2>&1; then
		say "$tag: from Debian $suite"
		bootstrap "$suite"
		import "$tag"
	else
		say "$tag: is there"
	fi
	local alias
	for alias; do
		# An alias that is there may be the official image: it stays unless it is missing.
		if [ "${FORCE:-}" = 1 ] || ! docker image inspect "$alias" >/dev/null 2>&1; then
			docker tag "$tag" "$alias"
			say "$alias: the same image"
		fi
	done
}

# bootstrap SUITE writes the suite's root file system with RabbitMQ to $work/root.tar.
bootstrap() {
	local suite=$1 keyring=${DEBIAN_KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}
	need mmdebstrap mmdebstrap
	[ -e "$keyring" ] || need "$keyring" debian-archive-keyring
	# shellcheck disable=SC2016 # mmdebstrap's shell expands $1, the new root.
	mmdebstrap --quiet --variant=essential --include=rabbitmq-server --components=main \
		--keyring="$keyring" "${apt_options[@]}" \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--essential-hook='printf "#!/bin/sh\nexit 101\n" >"$1/usr/sbin/policy-rc.d" && chmod +x "$1/usr/sbin/policy-rc.d"' \
		--customize-hook='rm "$1/usr/sbin/policy-rc.d"' \
		--customize-hook="sync-in '$here/root' /" \
		"$suite" "$work/root.tar" "$mirror" ||
		die "cannot build Debian $suite from $mirror." \
			"If a signature's key is missing (NO_PUBKEY), name a newer keyring of Debian in DEBIAN_KEYRING"
}

# import TAG makes an image of $work/root.tar that is used as the official one is.
import() {
	docker import \
		--change 'USER rabbitmq' \
		--change 'WORKDIR /var/lib/rabbitmq' \
		--change 'ENV HOME=/var/lib/rabbitmq' \
		--change 'ENV LANG=C.UTF-8' \
		--change 'ENV PATH=/usr/lib/rabbitmq/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
		--change 'ENV RABBITMQ_LOGS=-' \
		--change 'EXPOSE 4369 5671 5672 15671 15672 25672' \
		--change 'VOLUME /var/lib/rabbitmq' \
		--change 'CMD ["rabbitmq-server"]' \
		"$work/root.tar" "$1" >/dev/null
	rm "$work/root.tar"
	say "$1: $(docker image inspect --format '{{.Size}}' "$1" | numfmt --to=si)B"
}

# need COMMAND_OR_FILE PACKAGE
need() {
	if command -v "$1" >/dev/null || [ -e "$1" ]; then return; fi
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		die "$1 is missing: install the package $2"
	fi
	say "installing $2"
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null
}

# debian_mirror prints where this machine's apt gets Debian from.
debian_mirror() {
	local found=
	if command -v apt-get >/dev/null; then
		# The releases of the archive itself; security, backports and others have labels of their own.
		# shellcheck disable=SC2016 # apt expands them.
		found=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
			awk '$1 == "Debian" && $2 == "Debian" && $3 ~ /^https?:/ { print $3; exit }') || true
	fi
	echo "${found:-http://deb.debian.org/debian}"
}

# apt_setting NAME prints --aptopt=NAME "value" when this machine's apt has such a setting. A machine
# that reaches Debian only through a proxy, or whose mirror is a snapshot, says so there.
apt_setting() {
	command -v apt-config >/dev/null || return 0
	local value
	eval "$(apt-config shell value "$1")"
	[ -z "${value:-}" ] || echo "--aptopt=$1 \"$value\""
}

say() { echo "broker images: $*" >&2; }

die() {
	say "$*"
	exit 1
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mirror=${DEBIAN_MIRROR:-$(debian_mirror)}
mapfile -t apt_options < <(
	for name in Acquire::http::Proxy Acquire::https::Proxy Acquire::Check-Valid-Until Acquire::Check-Date; do
		apt_setting "$name"
	done
)
main "$@"
