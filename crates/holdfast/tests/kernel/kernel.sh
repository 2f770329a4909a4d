#!/bin/sh
# Makes what a guest boots from, in the folder that is given: Debian's kernel, unpacked and not
# installed, and a tiny first root that mounts the host's root read-only, with a layer in memory
# on top. So nvme-cli, fio and mkfs come from the host as they are.
set -eu
cd "$1"
package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p')
version=${package#linux-image-}
test -n "$version" || { echo "apt knows no linux-image-amd64: run apt-get update" >&2; exit 1; }
test "$(cat version 2>/dev/null)" != "$version" || exit 0
rm -rf root tree version ./*.deb
apt-get -qq -o APT::Sandbox::User=root download "$package" || { apt-get -qq update && apt-get -qq -o APT::Sandbox::User=root download "$package"; }
dpkg -x ./*.deb root
rm ./*.deb
depmod -b root "$version"
# QEMU loads an ELF without running the decompressor, which emulated takes longer than the boot.
# What follows the stream makes xz complain: whether it is whole, the boot will tell.
image=root/boot/vmlinuz-$version
at=$(LC_ALL=C grep -aboP '\xfd7zXZ\x00' "$image" | head -n 1 | cut -d : -f 1)
tail -c +$((at + 1)) "$image" | xz -dc > vmlinux 2>/dev/null || true
test -s vmlinux
mkdir -p tree/bin tree/modules tree/dev tree/proc tree/sys tree/host tree/layer tree/new
cp "$(command -v busybox)" tree/bin/busybox
for module in virtio_pci virtio_net 9pnet_virtio 9p overlay; do
    modprobe -d "$PWD/root" -S "$version" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
    cp "$file" tree/modules/
    basename "$file" >> tree/modules/order
done
cp "$2" tree/init
chmod +x tree/init
(cd tree && find . | busybox cpio -o -H newc 2>/dev/null) > first.cpio
echo "$version" > version
