# The kernel's NVMe/TCP host and nvme-cli against a stand-alone target.
. /share/common.sh

step "discovery tells what this host may use, and where"
says "Number of Records 2" nvme discover -t tcp -a $HOST -s "$PORT"
! grep -q "$OTHERS" /run/out || fail "a volume of others is told: $(cat /run/out)"
ok nvme connect-all -t tcp -a $HOST -s "$PORT" -i 2
until_so is_there "$DATA"
until_so is_there "$RAM"
volume=$(device_of "$DATA")
controller=${volume%n1}

step "a host that is not named is refused"
refused "failed to write" nvme connect -t tcp -a $HOST -s "$PORT" \
    -n "nqn.2014-08.org.nvmexpress:uuid:$OTHERS"
dmesg | grep -q "is not allowed, hostnqn: $ME" || fail "the kernel does not know why"
# The last complaint that there is a reason for.
dmesg -C

step "it says what it is"
says "subnqn .*$DATA" nvme id-ctrl "$controller"
says "0x1$" nvme list-ns "$controller"
says "uuid *: $DATA" nvme ns-descs "$volume"
says "lbads:12 .*in use" nvme id-ns "$volume"
says "state.*optimized" nvme ana-log "$controller"
ok nvme smart-log "$controller"
ok nvme error-log "$controller"
ok nvme fw-log "$controller"
ok nvme get-log "$controller" --log-id=5 --log-len=4096
refused "0x4109" nvme supported-log-pages "$controller"
says "0x00010001" nvme get-feature "$controller" -f 7
says "0x00000900" nvme get-feature "$controller" -f 0x0b
refused "0x410d" nvme set-feature "$controller" -f 1 -v 1 -s
says "value: 460001" nvme get-property "$controller" -o 0x14

step "wrong commands get the status that the specification has for them"
dd if=/dev/urandom of=/run/pages bs=4k count=4 status=none
io() { status=$1; shift; refused "$status" nvme io-passthru "$volume" -n 1 "$@"; }
admin() { status=$1; shift; refused "$status" nvme admin-passthru "$controller" "$@"; }
io 0x4001 -o 0x77
io 0x4080 -o 2 -r -l 4096 --cdw10="$BLOCKS"
io 0x4080 -o 2 -r -l 4096 --cdw10=0xffffffff --cdw11=0xffffffff
io 0x4080 -o 1 -w -l 4096 --cdw10="$BLOCKS" -i /run/pages
io 0x400f -o 2 -r -l 4096 --cdw12=1
io 0x400f -o 2 -r -l 8192
io 0x400f -o 1 -w -l 4096 --cdw12=1 -i /run/pages
io 0x400f -o 9 -w -l 16 --cdw10=5 --cdw11=4 -i /run/pages
admin 0x4001 -o 0x33
admin 0x4001 -o 0xc1
admin 0x4002 -o 6 -r -l 4096 --cdw10=0x77
admin 0x400b -o 6 -r -l 4096 -n 5
admin 0x400f -o 6 -r -l 512 --cdw10=1

step "trimmed and zeroed ranges read as zeros, and others stay"
ok dd if=/dev/urandom of=/run/mib bs=1M count=6 status=none
ok dd if=/run/mib of="$volume" bs=1M oflag=direct
ok blkdiscard -o 1M -l 1M "$volume"
ok fallocate -z -o 2M -l 2M "$volume"
ok dd if=/dev/zero of=/run/mib bs=1M seek=1 count=3 conv=notrunc
ok cmp -n 6291456 "$volume" /run/mib
ok dd if="$volume" of=/run/pages bs=4k count=4
ok nvme compare "$volume" -s 0 -c 3 -z 16384 -d /run/pages
refused 0x4285 nvme compare "$volume" -s 1 -c 3 -z 16384 -d /run/pages
ok nvme flush "$volume"

step "reservations are kept"
ok nvme resv-register "$volume" -r 0 -k 0x1234
ok nvme resv-acquire "$volume" -c 0x1234 -t 1 -a 0
says "rkey *: 1234" nvme resv-report "$volume" -e
refused 0x4083 nvme resv-release "$volume" -c 0x99 -t 1 -a 0
ok nvme resv-release "$volume" -c 0x1234 -t 1 -a 0
ok nvme resv-register "$volume" -r 1 -c 0x1234

step "fio finds what it wrote, in commands of every size and larger than one can be"
ok verify --filename="$volume" --rw=randwrite --bsrange=4k-128k --iodepth=16 --size=6M --fsync=32
ok verify --filename="$volume" --rw=write --bsrange=512k-2m --iodepth=4 --size=8M

step "the same with checksums of headers and data"
ram=$(device_of "$RAM")
ok nvme disconnect -d "${ram%n1}"
connect "$PORT" "$RAM" -i 2 --hdr-digest --data-digest
ok verify --filename="$(device_of "$RAM")" --rw=randrw --bsrange=4k-256k --iodepth=8 --size=4M

step "ext4 is whole"
modprobe ext4
ok mkfs.ext4 -q "$volume"
mkdir /run/tree
ok mount "$volume" /run/tree
ok cp -r /etc/init.d /usr/share/doc/fio /run/tree
ok sync -f /run/tree
ok fstrim /run/tree
ok umount /run/tree
ok e2fsck -fn "$volume"
ok mount "$volume" /run/tree
ok diff -r /etc/init.d /run/tree/init.d
ok umount /run/tree

step "the driver has nothing to complain about"
! complaints || fail "see above"

step "a target that is killed and comes back costs a pause"
ok nvme disconnect -d "$controller"
connect "$PORT" "$DATA" -i 2 --reconnect-delay=1
volume=$(device_of "$DATA")
verify --filename="$volume" --rw=randwrite --bs=16k --iodepth=4 --size=12M --rate_iops=150 \
    > /run/fio 2>&1 &
# The device itself counts nothing: its paths do.
path=/sys/block/${volume#/dev/}
is_writing() { test "$(cat "${path%n1}"c*n1/stat | awk '{ print $5 }')" -gt 60; }
until_so is_writing
host_does kill
wait $! || fail "fio: $(cat /run/fio)"
dmesg | grep -q "Successfully reconnected" || fail "the kernel did not reconnect"
! dmesg | grep -i -E 'I/O error|IDs don.t match' || fail "see above"

step "it lets go"
ok nvme disconnect-all
until_so sh -c '! ls /dev/nvme[0-9]*'
