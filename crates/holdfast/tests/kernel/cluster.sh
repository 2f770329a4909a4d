# `holdfast host` with the kernel's driver, on a machine beside a cluster that moves its volume.
. /share/common.sh

# The cluster's addresses are those of the real machine's loopback.
for module in nf_tables nft_chain_nat nft_nat nft_masq; do modprobe $module; done
echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet
ok nft -f - << END
table ip there {
    chain out {
        type nat hook output priority -100
        ip daddr 127.0.0.1 tcp dport $PORT-$((PORT + 99)) dnat to $HOST
    }
    chain after {
        type nat hook postrouting priority 100
        oifname eth0 masquerade
    }
}
END
export HOLDFAST_SERVER="http://127.0.0.1:$((PORT + 1))"

step "a volume becomes a device"
mkdir /run/holdfast
"$HOLDFAST" host --controller "127.0.0.1:$PORT" --state /run/host --run /run/holdfast --name guest \
    --paths kernel > /run/host.log 2>&1 &
until_so test -s /run/holdfast/host.json
until_so sh -c '"$0" get hosts | grep "guest *healthy"' "$HOLDFAST"
says /dev/nvme "$HOLDFAST" attach music --run /run/holdfast
device=$(grep -o '/dev/nvme.*' /run/out)
is_served_by() { nvme list-subsys | grep -q "trsvcid=$1.* live"; }

# The device itself counts nothing: its paths do.
written() { cat /sys/block/nvme*c*n1/stat | awk '{ sum += $5 } END { print sum }'; }
is_writing() { test "$(written)" -gt $((before + 40)); }

# Writes for some seconds, while the named thing is done.
writes_while() {
    verify --filename="$device" --rw=randwrite --bs=16k --iodepth=4 --size=8M --rate_iops=80 \
        > /run/fio 2>&1 &
    before=$(written)
    until_so is_writing
    host_does "$1"
    wait $! || fail "fio: $(cat /run/fio)"
    # Of its fields the one with the longest time that a write took.
    pause=$(cut -d ';' -f 80 /run/fio | cut -d . -f 1)
    step "longest pause $((pause / 1000)) ms"
}

step "the target's process is killed: the device follows to another node"
nvme list-subsys > /run/before
writes_while kill
until_so sh -c 'nvme list-subsys | grep live > /run/after'
! grep -q -F "$(grep live /run/before)" /run/after || fail "it has not moved: $(cat /run/after)"
test "$(grep -c tcp /run/after)" = 1 || fail "a dead path is left: $(cat /run/after)"

step "the target falls silent: the device follows"
until_so sh -c '"$0" get volumes | grep "music.*2/2 *healthy"' "$HOLDFAST"
writes_while stop
# The kernel would wait 30 s for answers; an emulated machine that has little time needs some.
test "$pause" -lt 20000000 || fail "the kernel waited for a target that was replaced"
host_does go-on

step "its node is drained: the device follows again"
nvme list-subsys | grep live > /run/after
writes_while drain
until_so sh -c '! nvme list-subsys | grep -F "$(cat /run/after)"'
says live nvme list-subsys

step "the kernel sees a volume grow"
ok "$HOLDFAST" resize music --size 96MiB
until_so sh -c "test \"\$(cat /sys/block/${device#/dev/}/size)\" = $((96 * 2048))"
ok dd if=/dev/zero of="$device" bs=1M seek=95 count=1 oflag=direct

step "a volume that is detached is gone"
! dmesg | grep -i -E 'I/O error|IDs don.t match' || fail "see above"
ok "$HOLDFAST" detach music --run /run/holdfast
until_so test ! -e "$device"
