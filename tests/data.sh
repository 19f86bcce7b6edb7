#!/bin/sh
# cajal data get: with a curl of our own on the PATH that fetches, fetches something else, or finds no network.
#
#   tests/data.sh PROGRAM
set -u
cajal=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir bin home data
export HOME="$work/home" CAJAL_DATA="$work/data" PATH="$work/bin:$PATH"
failures=0

# expect STATUS PIECE ARGUMENTS...
expect() {
    status=$1 piece=$2
    shift 2
    "$cajal" "$@" >out 2>err </dev/null
    found=$?
    if [ $found != "$status" ] || ! cat out err | grep -Eq -- "$piece"; then
        echo "cajal $*: exit $found, expected $status and '$piece': $(head -c 300 out err)"
        failures=$((failures + 1))
    fi
}

# the file that was asked for is the last argument but one after -o; what is fetched is $work/answer, status is $work/status
cat >bin/curl <<'END'
#!/bin/sh
while [ $# -gt 0 ]; do
    [ "$1" != -o ] || out=$2
    url=$1
    shift
done
here=$(dirname "$(dirname "$0")")
echo "$url" >>"$here/asked"
[ ! -e "$here/answer" ] || cp "$here/answer" "$out"
exit "$(cat "$here/status")"
END
chmod +x bin/curl

echo 6 >status
expect 2 'could not be fetched \(status 6\); is there a network' data get names
[ ! -e data/names/names.txt ] || failures=$((failures + 1))
echo 0 >status
echo "something else" >answer
expect 2 'SHA-256 0a30b555[0-9a-f]* was expected, [0-9a-f]* was found; the file was removed' data get names
[ ! -e data/names/names.txt ] && [ ! -e data/names/names.txt.part ] || failures=$((failures + 1))
expect 1 'names/names.txt was looked for in .*; cajal data get names fetches it' data info names
expect 0 'bccd/BCCD.tar.gz fetched' data get bccd
expect 1 'tar' data info bccd
grep -q 'names.txt' asked || failures=$((failures + 1))
expect 0 'digits is part of the program' data get digits
expect 2 "did you mean 'names'" data get nmaes
expect 2 'which one' data get
if [ $failures != 0 ]; then
    echo "$failures failed"
    exit 1
fi
