#!/bin/sh
# Completes a userland in the directory $1 whose packages are unpacked and not installed: does what
# matters here of what their own scripts would have done.
set -eu
root=$1

echo 'root:x:0:0:root:/root:/bin/bash' >"$root/etc/passwd"
echo 'root:x:0:' >"$root/etc/group"
ln -sf dash "$root/bin/sh"
ln -sf gcc "$root/usr/bin/cc"

# numpy wants any of the alternatives that bring these.
for library in "$root"/usr/lib/*/blas/libblas.so.3 "$root"/usr/lib/*/lapack/liblapack.so.3; do
    [ ! -e "$library" ] || ln -sf "$(basename "${library%/*}")/${library##*/}" "${library%/*/*}/"
done

# A job calls these from /opt/venv/bin, its own source tree from anywhere.
mkdir -p "$root/opt/venv/bin"
ln -sf /usr/bin/python3 "$root/opt/venv/bin/python"
echo /job/src >"$root/usr/lib/python3/dist-packages/job.pth"
