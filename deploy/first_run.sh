#!/bin/sh
# Writes .env for docker-compose.yml: passwords nobody else has, and a first key, which is shown once and kept nowhere.
# Run again, it changes nothing. Another file may be named: sh deploy/first_run.sh FILE
set -eu
folder=$(cd "$(dirname "$0")/.." && pwd)
target=${1:-$folder/.env}
if [ -e "$target" ]; then
    echo "$target is there and stays as it is."
    exit 0
fi

random_hex() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }

sha256() {
    if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1
}

key=sk-$(random_hex)
digest=$(printf %s "$key" | sha256)
[ ${#digest} -eq 64 ] || { echo "neither sha256sum nor shasum works here" >&2; exit 1; }

umask 077 # only the owner may read it
sed -e "s/^POSTGRES_PASSWORD=\$/POSTGRES_PASSWORD=$(random_hex)/" \
    -e "s/^REDIS_PASSWORD=\$/REDIS_PASSWORD=$(random_hex)/" \
    -e "s/^ANTIPHON_SEAL_KEY=\$/ANTIPHON_SEAL_KEY=$(random_hex)/" \
    -e "s/^ANTIPHON_KEY=\$/ANTIPHON_KEY='[{\"name\": \"first\", \"role\": \"admin\", \"sha256\": \"$digest\"}]'/" \
    "$folder/.env.example" >"$target.new"
mv "$target.new" "$target"

echo "$target is written. The first key, an administrator's, is shown only now:"
echo
echo "  $key"
echo
echo "Start with: docker compose up --detach"
