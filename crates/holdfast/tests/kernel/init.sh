#!/bin/busybox sh
# The first process of the guest: finds the host's root and the test's folder, runs its script
# there, tells how it ended and waits to be turned off. It does not do that itself: the kernel would
# tell of it, whatever its log level, in the middle of the last line.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for module in $($b cat /modules/order); do $b insmod "/modules/$module"; done
nine=trans=virtio,version=9p2000.L,msize=262144
$b mount -t 9p -o "$nine,ro,cache=loose" root /host
$b mount -t tmpfs layer /layer
$b mkdir /layer/top /layer/work
$b mount -t overlay -o lowerdir=/host,upperdir=/layer/top,workdir=/layer/work root /new
$b mkdir -p /new/share
for folder in proc sys dev; do $b mount --move /$folder /new/$folder; done
$b mount -t tmpfs run /new/run
# Not cached, because the test writes into it while the guest waits.
$b mount -t 9p -o "$nine,cache=none" share /new/share
$b ip link set lo up
$b ip link set eth0 up
$b ip addr add 10.0.2.15/24 dev eth0
$b ip route add default via 10.0.2.2
exec $b switch_root /new /bin/sh -c \
    'sh /share/script.sh 2>&1; echo "guest ended: $?"; sleep 60'
