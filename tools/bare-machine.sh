#!/bin/sh
# The README's two commands on a machine that has nothing: makes a minimal Debian 12 in a temporary folder, puts git and make in, clones this
# repository there (what is committed) and runs `make test` and `make demo` twice.  Root only.
#
#   tools/bare-machine.sh [COMMAND]      another command instead, run in the clone
#
# The package mirror is the one this machine uses (MIRROR=... overrides), and so are its apt settings, certificates and proxies.
set -eu
repository=$(cd "$(dirname "$0")/.." && pwd)
command=${1-make test && make demo && make test && make demo}
[ "$(id -u)" = 0 ] || { echo "bare-machine: needs root, for debootstrap and chroot" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "bare-machine: debootstrap is missing (Debian: apt-get install debootstrap)" >&2; exit 1; }

suite=bookworm
mirror=${MIRROR-$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    awk '$1 == "URIs:" { print $2 } $1 == "deb" { for (i = 2; i <= NF; i++) if ($i ~ /^http/) print $i }' | grep '/debian/*$' | head -n 1)}
root=$(mktemp -d)/debian
cleanup() {
    ! mountpoint -q "$root/proc" || umount "$root/proc"
    rm -rf --one-file-system "$(dirname "$root")"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# shellcheck disable=SC2086 # an empty mirror means debootstrap's own choice
debootstrap --variant=minbase --include=git,make,ca-certificates $suite "$root" ${mirror:-} >"$root.log" 2>&1 ||
    { tail -n 20 "$root.log" >&2; exit 1; }

# What this machine needs to reach the network: apt's settings, names, certificates.
for f in /etc/apt/apt.conf /etc/apt/apt.conf.d/*proxy* /etc/apt/apt.conf.d/99* /etc/resolv.conf /etc/hosts; do
    [ ! -f "$f" ] || cp -L "$f" "$root$f"
done
if [ -d /usr/local/share/ca-certificates ]; then
    cp -r /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/"
    chroot "$root" update-ca-certificates >/dev/null 2>&1
fi
mount -t proc proc "$root/proc" || echo "bare-machine: no /proc inside; going on"
mkdir -p "$root/dev/shm" && chmod 1777 "$root/dev/shm"

git clone -q --no-hardlinks "$repository" "$root/root/cajal"
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM="${TERM-dumb}" LANG=C.UTF-8 \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    chroot "$root" sh -c "cd /root/cajal && $command"
