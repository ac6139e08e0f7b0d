#!/bin/sh
# Write the file system of a small Debian bookworm, as a tar archive, to standard output: a base for the node image
# where no image registry can be reached. Needs root and debootstrap:
#
#     sudo images/base/build-base.sh | docker import - mpibed/base:bookworm
#
# MPIBED_DEBIAN_MIRROR names the mirror to take the packages from; without it debootstrap uses its own.
set -eu

suite=bookworm
if [ -t 1 ]; then
    echo "standard output is a terminal; write it to a file or to 'docker import'" >&2
    exit 2
fi
work=$(mktemp -d "${TMPDIR:-/var/tmp}/mpibed-base.XXXXXX")
# One file system only: should a mount of debootstrap's have stayed, it is not emptied.
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT TERM HUP
root=$work/root

# In a mount namespace of its own, so that its mounts of /proc and /sys end with it however it ends.
unshare --mount debootstrap --variant=minbase "$suite" "$root" ${MPIBED_DEBIAN_MIRROR:+"$MPIBED_DEBIAN_MIRROR"} >&2

# What an image never reads; dpkg keeps it out of later installations too. Licences stay.
cat >"$root/etc/dpkg/dpkg.cfg.d/slim" <<'EOF'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/groff/*
path-exclude /usr/share/info/*
path-exclude /usr/share/lintian/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/man/*
EOF
find "$root/usr/share/doc" ! -type d ! -name copyright -delete
find "$root/usr/share/doc" -depth -type d -empty -delete
for folder in usr/share/groff usr/share/info usr/share/lintian usr/share/locale usr/share/man \
    var/cache/apt var/cache/debconf var/lib/apt/lists var/log; do
    [ ! -d "$root/$folder" ] || find "$root/$folder" -mindepth 1 -delete
done
rm -f "$root/etc/resolv.conf" "$root/etc/hostname" # the engine writes these

tar --create --numeric-owner --one-file-system --directory="$root" --exclude='./dev/*' .
