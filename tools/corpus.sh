#!/bin/sh
# Makes data/embedded/sources.txt.gz, the text corpus `sources`: the project's own headers and sources, in plain ASCII.
#
# The file is committed, so that a character model's loss stays comparable while the sources go on; run this by hand to renew it.
set -eu
cd "$(dirname "$0")/.."
LC_ALL=C
export LC_ALL
for f in include/cajal/*.h src/core/*.[ch] src/ops/*.[ch] src/grad/*.[ch] src/data/*.[ch]; do
    [ "$f" != include/cajal/sugar.h ] || continue
    printf '/* %s */\n' "$f"
    cat "$f"
    echo
done | sed 's/…/.../g; s/·/*/g; s/[—–]/-/g; s/²/^2/g; s/³/^3/g; s/ᵀ/^T/g; s/≤/<=/g; s/≥/>=/g; s/±/+-/g; s/×/x/g; s/→/->/g' | tr -cd '\n -~' | gzip -9n >data/embedded/sources.txt.gz
