//! Free ports on this machine, for as long as a cluster wants them.
//!
//! A port is taken again when its part restarts, so it must stay ours while nobody listens on
//! it. Ports are therefore below those that kernels give to outgoing connections, and each is
//! reserved with a locked file that other tests of this machine respect. What knows nothing of
//! these files may still be faster: a part then says "address already in use", and the cluster
//! is started anew with other ports.

use std::env;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

use super::trouble::{Result, Trouble};

/// The first port: below the outgoing ports of Linux (32768) and macOS (49152).
const FIRST: u16 = 20_000;
/// How many there are.
const COUNT: u16 = 8_192;
/// The folder of locks, in the folder for temporary files.
const FOLDER: &str = "capstan-ports";

/// Where this process looks next; processes begin at different places.
static NEXT: AtomicU16 = AtomicU16::new(0);

/// A reserved port; dropping gives it back.
#[derive(Debug)]
pub struct Port {
    number: u16,
    lock: File,
}

impl Drop for Port {
    /// Unlocks, as closing is not enough: a program that another thread is about to start has
    /// inherited the open file until it runs, and the lock with it.
    fn drop(&mut self) {
        // If that fails the port stays reserved until the last copy of the file is closed.
        let _ = self.lock.unlock();
    }
}

impl Port {
    /// Reserves a free port.
    pub fn reserve() -> Result<Port> {
        let folder = env::temp_dir().join(FOLDER);
        fs::create_dir_all(&folder).map_err(Trouble::at(&folder))?;
        let start = process::id().wrapping_mul(61) as u16;
        for _ in 0..COUNT {
            let step = NEXT.fetch_add(1, Ordering::Relaxed);
            let number = FIRST + start.wrapping_add(step) % COUNT;
            if let Some(lock) = lock(&folder, number)
                && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok()
            {
                return Ok(Port { number, lock });
            }
        }
        Err(Trouble::new(format!("no free port from {FIRST} on, of {COUNT}")))
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

/// The lock of a port, unless somebody has it or the file is another user's.
fn lock(folder: &Path, number: u16) -> Option<File> {
    let path = folder.join(number.to_string());
    let file = File::options().create(true).truncate(false).write(true).open(path).ok()?;
    file.try_lock().ok()?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_given_once() {
        let mut ports: Vec<Port> = (0..20).map(|_| Port::reserve().expect("some")).collect();
        let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 20);
        let folder = env::temp_dir().join(FOLDER);
        assert!(lock(&folder, numbers[0]).is_none(), "reserved");
        // What a started program holds between fork and exec: the same open file.
        let inherited: Vec<File> =
            ports.iter().map(|port| port.lock.try_clone().expect("a copy")).collect();
        ports.clear();
        assert!(lock(&folder, numbers[0]).is_some(), "given back");
        drop(inherited);
    }

    #[test]
    fn a_port_that_somebody_listens_on_is_passed_over() {
        let start = process::id().wrapping_mul(61) as u16;
        let taken: Vec<TcpListener> = (0..8u16)
            .map(|at| FIRST + start.wrapping_add(NEXT.load(Ordering::Relaxed) + at) % COUNT)
            .filter_map(|number| TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok())
            .collect();
        let got = Port::reserve().expect("one").number();
        let of = |l: &TcpListener| l.local_addr().expect("bound").port();
        assert!(taken.iter().all(|listener| of(listener) != got));
    }
}
