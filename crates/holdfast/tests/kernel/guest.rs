//! A virtual machine with Debian's kernel and the real machine's programs.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Emulated, on two cores that others use, too: longer than any script takes, shorter than a tier.
const LIMIT: &str = "240";

/// One guest at a time: two would take twice as long each.
static TURN: Mutex<()> = Mutex::new(());

/// A guest that runs a script; it ends with the test.
pub struct Guest {
    machine: Child,
    console: BufReader<ChildStdout>,
    /// What it has told.
    told: String,
    share: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Guest {
    /// Boots. The script finds `facts` as variables, and the folder as `/share`.
    pub fn boot(share: &Path, script: &str, facts: &[(&str, &str)]) -> Self {
        // A test that failed leaves nothing behind that the next one could meet.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let kernel = kernel();
        let mut lines = vec![format!("KERNEL={}\n", kernel.display())];
        lines.extend(facts.iter().map(|(name, value)| format!("{name}={value}\n")));
        fs::write(share.join("facts"), lines.concat()).unwrap();
        fs::write(share.join("common.sh"), include_str!("common.sh")).unwrap();
        fs::write(share.join("script.sh"), script).unwrap();
        let mut machine = machine(&kernel, share).spawn().unwrap();
        let console = BufReader::new(machine.stdout.take().unwrap());
        Self { machine, console, told: String::new(), share: share.into(), _turn: turn }
    }

    /// Does what the script asks for by name, until it has ended well.
    pub fn run(mut self, mut on_host: impl FnMut(&str)) {
        loop {
            let mut line = Vec::new();
            let more = self.console.read_until(b'\n', &mut line).unwrap();
            let line = String::from_utf8_lossy(&line);
            assert!(more > 0, "the guest ended without a word:\n{}", self.told);
            self.told.push_str(&line);
            let line = line.trim_end();
            if let Some(asked) = line.strip_prefix("host: ") {
                on_host(asked);
                fs::write(self.share.join(format!("done-{asked}")), "").unwrap();
            }
            if let Some(code) = line.strip_prefix("guest ended: ") {
                assert_eq!(code, "0", "the guest's script failed:\n{}", self.told);
                return;
            }
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.machine.kill();
        let _ = self.machine.wait();
    }
}

/// The folder with the kernel and the first root, made at the first use.
fn kernel() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernel");
    fs::create_dir_all(&folder).unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel");
    let mut command = Command::new("sh");
    command.arg(here.join("kernel.sh")).arg(&folder).arg(here.join("init.sh"));
    assert!(command.status().unwrap().success(), "there is no kernel to boot");
    folder
}

fn machine(kernel: &Path, share: &Path) -> Command {
    let folder = |id: &str, path: &Path, rights: &str| {
        let path = path.display();
        format!("local,id={id},path={path},security_model=none,multidevs=remap{rights}")
    };
    let mut command = Command::new("timeout");
    command.args(["--foreground", "--kill-after=5", LIMIT]);
    // It ends with what watches the time, however that ends.
    command.args(["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64"]);
    // Without hardware's help: what there is of it differs from machine to machine.
    command.args("-M pc -accel tcg,thread=multi -cpu max -smp 2 -m 768".split(' '));
    command.args("-nodefaults -no-user-config -display none -serial stdio -no-reboot".split(' '));
    command.arg("-kernel").arg(kernel.join("vmlinux"));
    command.arg("-initrd").arg(kernel.join("first.cpio"));
    command.args(["-fsdev", &folder("root", Path::new("/"), ",readonly=on")]);
    command.args(["-device", "virtio-9p-pci,fsdev=root,mount_tag=root"]);
    command.args(["-fsdev", &folder("share", share, "")]);
    command.args(["-device", "virtio-9p-pci,fsdev=share,mount_tag=share"]);
    command.args(["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net"]);
    // Words of the kernel in the middle of a line of the script would tear it: it is asked instead.
    let line = "console=ttyS0 loglevel=1 mitigations=off no_timer_check panic=-1";
    command.args(["-append", line]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}
