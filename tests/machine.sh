# shellcheck shell=bash
# A minimal Debian in a folder, to run commands in as on a new machine. To be sourced by a script that runs as root, has
# debootstrap, and has set:
#   project     the checkout      work     a folder for logs
#   fresh, mirror, host_certs     as the options of fresh_machine.sh; may be empty
# It unmounts everything (unmount_all) before it ends. resolv.conf and hosts are this machine's; PIP_* and *_proxy are
# passed on if they are set.

host_bundle=/root/host-certificates.pem # inside the machine
mounts=()

unmount_all() {
  local index
  for ((index = ${#mounts[@]} - 1; index >= 0; index--)); do
    umount "${mounts[index]}" 2>/dev/null || umount --lazy "${mounts[index]}"
  done
  mounts=()
}

attach() {
  mount "$@"
  mounts+=("${!#}")
}

# The bare system is kept as a tar file: making it is slow and always the same.
make_machine() {
  local release=$1 machine=$2 cache=$project/build/fresh_machine/$1.tar
  [ -z "$fresh" ] || rm -f "$cache"
  mkdir -p "$machine" "$(dirname "$cache")"
  if [ -f "$cache" ]; then
    tar -xf "$cache" -C "$machine" --numeric-owner
    return
  fi
  debootstrap --variant=minbase "$release" "$machine" ${mirror:+"$mirror"} >"$work/$release.debootstrap.log" ||
    { tail -n 20 "$work/$release.debootstrap.log" >&2; stop "debootstrap $release failed"; }
  tar -cf "$cache.new" -C "$machine" --numeric-owner .
  mv "$cache.new" "$cache"
}

connect() {
  local machine=$1
  attach -t proc proc "$machine/proc"
  attach -t sysfs -o ro sys "$machine/sys"
  attach -t tmpfs -o size=64m,mode=755 dev "$machine/dev"
  local node
  for node in null zero full random urandom; do
    : >"$machine/dev/$node"
    attach --bind "/dev/$node" "$machine/dev/$node"
  done
  ln -s /proc/self/fd "$machine/dev/fd"
  mkdir "$machine/dev/shm"
  attach -t tmpfs -o mode=1777 shm "$machine/dev/shm"
  cp --dereference /etc/resolv.conf /etc/hosts "$machine/etc/"
  if [ -n "$host_certs" ]; then
    cp --dereference "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$machine$host_bundle"
  fi
}

# Passes on only the variables that are needed to reach the network.
passed_on() {
  local name
  while read -r name; do
    case $name in
      PIP_CERT) ;; # a path on this machine
      PIP_* | [Hh][Tt][Tt][Pp]_[Pp]* | [Hh][Tt][Tt][Pp][Ss]_[Pp]* | [Nn][Oo]_[Pp][Rr][Oo][Xx][Yy])
        printf '%s=%s\0' "$name" "${!name}"
        ;;
    esac
  done < <(compgen -e)
  if [ -n "$host_certs" ]; then printf '%s\0' "PIP_CERT=$host_bundle" "SSL_CERT_FILE=$host_bundle"; fi
}
