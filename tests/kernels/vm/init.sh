#!/bin/busybox sh
# First stage (PID 1 in the initramfs): from the bare kernel to a root file system with all that an
# init system would mount. Disks: vda = root image, vdb = job (tar), vdc = results.
# It does as much as it can, since each program of the image takes 0.1 s to start under emulation.
set -eu
/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /etc /image /changes /root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm /dev/hugepages
cat >/etc/fstab <<'FSTAB'
devpts      /dev/pts             devpts      gid=5,mode=620,ptmxmode=666
shm         /dev/shm             tmpfs       mode=1777
hugetlbfs   /dev/hugepages       hugetlbfs   defaults
cgroup2     /sys/fs/cgroup       cgroup2     defaults
bpf         /sys/fs/bpf          bpf         mode=700
debugfs     /sys/kernel/debug    debugfs     defaults
tracefs     /sys/kernel/tracing  tracefs     defaults
securityfs  /sys/kernel/security securityfs  defaults
FSTAB
mount -a

while read -r module; do
    insmod "/modules/$module"
done </modules/order
until [ -b /dev/vdc ]; do sleep 0.02; done

# Changes to the image go to a tmpfs above it.
mount -t ext4 -o ro /dev/vda /image
mount -t tmpfs -o size=75% changes /changes
mkdir /changes/upper /changes/work
mount -t overlay -o lowerdir=/image,upperdir=/changes/upper,workdir=/changes/work root /root
mount -t tmpfs -o mode=755 run /root/run
mount -t tmpfs -o mode=1777 tmp /root/tmp
cp /boot/* /root/boot/
tar -xf /dev/vdb -C /root
mkdir -p /root/results /root/run/vm
mkfifo /root/run/vm/output

hostname guest
ip link set lo up
for directory in proc sys dev; do
    mount --move "/$directory" "/root/$directory"
done
exec switch_root /root /bin/sh /job/stage2.sh
