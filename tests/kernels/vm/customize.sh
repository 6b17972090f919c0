#!/bin/sh
# Completes a userland that mmdebstrap has installed in the directory $1 (see images.py).
# PYTHON_MODULES: what pip installs, one requirement a line.
set -eu
root=$1

# pip in the new userland trusts and asks whom pip on this machine does.
certificates=/etc/ssl/certs/ca-certificates.crt
[ ! -e "$certificates" ] || install -D -m 644 "$certificates" "$root$certificates"

chroot "$root" python3 -m venv --system-site-packages /opt/venv
printf '%s\n' "$PYTHON_MODULES" >"$root/tmp/requirements.txt"
chroot "$root" /opt/venv/bin/pip install --quiet --no-cache-dir -r /tmp/requirements.txt
rm "$root/tmp/requirements.txt"

# The source tree of a job stands in for an installed package, also under sudo.
for site in "$root"/opt/venv/lib/python3*/site-packages; do
    echo /job/src >"$site/job.pth"
done
cat >"$root/usr/local/bin/faultprof" <<'LAUNCHER'
#!/opt/venv/bin/python
import sys

from faultprof.cli import main

sys.exit(main())
LAUNCHER
chmod 755 "$root/usr/local/bin/faultprof"

# An ordinary user who may call sudo, as on a developer's machine.
chroot "$root" useradd --create-home --shell /bin/bash --groups sudo user
echo 'user ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/user"
echo guest >"$root/etc/hostname"
echo '127.0.0.1 localhost guest' >"$root/etc/hosts"
