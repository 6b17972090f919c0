# Second stage (PID 1 in the root file system): runs /job/run and hands out what it leaves.
# Its output goes to a virtio port; its status and /results go to a disk, as a tar.
export PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root LANG=C.UTF-8 TERM=dumb

# Through a pipe, since the port can be opened only once but a job may open its stdout anew.
set -- /dev/vport*p1
cat /run/vm/output >"$1" &
port=$!
cd /job
setsid --wait bash /job/run </dev/null >/run/vm/output 2>&1
echo $? >/run/vm/status

# What the job left running may hold its end of the pipe: wait for the rest of the output, not
# for the end of it.
for _ in 1 2 3 4 5 6 7 8 9 10; do
    kill -0 "$port" 2>/dev/null || break
    sleep 0.1
done
tar -cf /dev/vdc -C /run/vm status -C / results
sync
echo o >/proc/sysrq-trigger
while :; do sleep 1; done
