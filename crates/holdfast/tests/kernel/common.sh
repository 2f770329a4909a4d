# What every script of a guest begins with. The test put KERNEL, PORT and ids into /share/facts.
. /share/facts
set -u
mkdir -p /lib/modules /etc/nvme
ln -sfn "$KERNEL/root/lib/modules/$(uname -r)" "/lib/modules/$(uname -r)"
# From the virtual machine to the loopback of the real one.
HOST=10.0.2.2
ME=nqn.2014-08.org.nvmexpress:uuid:11111111-1111-1111-1111-111111111111
echo "$ME" > /etc/nvme/hostnqn
echo 11111111-1111-1111-1111-111111111111 > /etc/nvme/hostid
modprobe nvme-tcp

fail() {
    echo "FAILED: $*"
    dmesg | tail -n 20
    exit 1
}

step() { echo "step $(cut -d ' ' -f 1 /proc/uptime): $*"; }

# Runs a command that must succeed.
ok() { "$@" > /run/out 2>&1 || fail "$*: $(cat /run/out)"; }

# says TEXT COMMAND…: the command succeeds and says this.
says() {
    text=$1
    shift
    ok "$@"
    grep -q -- "$text" /run/out || fail "$* does not say \"$text\": $(cat /run/out)"
}

# refused TEXT COMMAND…: the command fails and says this.
refused() {
    text=$1
    shift
    ! "$@" > /run/out 2>&1 || fail "$* succeeds"
    grep -q -- "$text" /run/out || fail "$* does not say \"$text\": $(cat /run/out)"
}

# Waits until a command succeeds.
until_so() {
    tries=0
    until "$@" > /dev/null 2>&1; do
        tries=$((tries + 1))
        test $tries -lt 300 || fail "never came: $*"
        sleep 0.1
    done
}

# Asks the test to do something, and waits until it has.
host_does() {
    echo "host: $1"
    until_so test -e "/share/done-$1"
}

# The device of the volume with this id.
device_of() {
    for found in /sys/block/nvme[0-9]*n1; do
        case $found in *c[0-9]*) continue ;; esac
        test "$(cat "$found/uuid" 2>/dev/null)" != "$1" || echo "/dev/${found##*/}"
    done
}

is_there() { test -b "$(device_of "$1")"; }

connect() {
    port=$1 id=$2
    shift 2
    ok nvme connect -t tcp -a $HOST -s "$port" -n "nqn.2014-08.org.nvmexpress:uuid:$id" "$@"
    until_so is_there "$id"
}

# What the kernel's driver says of us, but for what it says of every controller that comes or goes.
complaints() {
    dmesg | grep -i -E 'nvme|I/O error' \
        | grep -v -E 'creating [0-9]+ I/O|mapped [0-9]|new ctrl|Removing ctrl|EXT4-fs'
}

verify() {
    fio --name=v --ioengine=libaio --direct=1 --verify=crc32c --verify_fatal=1 \
        --verify_state_save=0 --minimal "$@"
}
