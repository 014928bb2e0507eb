//! Whether this process may use AMX: the feature bits of the processor, the state that the system saves, the permission of
//! Linux, and the user's choice.
//!
//! CPUID leaf 0x1D, which describes tiles, is not read: virtual machines often hide it. The architecture fixes what it
//! would report for palette 1: eight tiles of sixteen lines of 64 bytes.

#![allow(unsafe_code)]

/// Environment variable that switches AMX off: `ETALON_AMX=off`.
const SWITCH: &str = "ETALON_AMX";

/// Bits of `CPUID.(7,0):EDX`: AMX-TILE and AMX-INT8.
const FEATURES: u32 = 0b11 << 24;

/// Bit of `CPUID.1:ECX`: the system has enabled XGETBV.
const OSXSAVE: u32 = 1 << 27;

/// Bits of XCR0: tile configuration and tile data.
const TILE_STATE: u64 = 0b11 << 17;

/// The registers that decide.
#[derive(Clone, Copy, Debug, Default)]
struct Registers {
    /// The highest CPUID leaf.
    leaves: u32,
    /// `CPUID.1:ECX`.
    system: u32,
    /// `CPUID.(7,0):EDX`, 0 without that leaf.
    features: u32,
    /// XCR0, 0 if it cannot be read.
    state: u64,
}

impl Registers {
    /// Whether the processor has the instructions and the system saves the tiles of a thread.
    fn support_tiles(self) -> bool {
        self.leaves >= 7
            && self.features & FEATURES == FEATURES
            && self.system & OSXSAVE == OSXSAVE
            && self.state & TILE_STATE == TILE_STATE
    }
}

/// Whether the processor supports AMX int8 products, the system permits them to this process, and the user did not
/// switch them off. Requests the permission.
pub(super) fn permitted() -> bool {
    permits(std::env::var(SWITCH).ok().as_deref(), machine::registers(), machine::request_permission)
}

fn permits(switch: Option<&str>, registers: Registers, request: impl FnOnce() -> bool) -> bool {
    !switch.is_some_and(|value| ["off", "0", "no", "false"].contains(&value.to_ascii_lowercase().as_str()))
        && registers.support_tiles()
        && request()
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod machine {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

    use super::{OSXSAVE, Registers};

    pub fn registers() -> Registers {
        let (leaves, system) = (__cpuid(0).eax, __cpuid(1).ecx);
        let features = if leaves >= 7 { __cpuid_count(7, 0).edx } else { 0 };
        // SAFETY: XGETBV is available because the OSXSAVE bit is set; register 0 always exists then.
        let state = if system & OSXSAVE == OSXSAVE { unsafe { _xgetbv(0) } } else { 0 };
        Registers { leaves, system, features, state }
    }

    /// Requests permission from Linux, for all threads of the process. Linux refuses if an alternate signal stack is too
    /// small to save the tiles.
    pub fn request_permission() -> bool {
        /// `arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)`.
        const CALL: [i64; 3] = [158, 0x1023, 18];
        let status: i64;
        // SAFETY: this system call takes its arguments by value and accesses no memory of the process. A `syscall`
        // overwrites rax, rcx and r11 only, and all three are declared as outputs.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") CALL[0] => status,
                in("rdi") CALL[1],
                in("rsi") CALL[2],
                lateout("rcx") _,
                lateout("r11") _,
                options(nostack),
            );
        }
        status == 0
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod machine {
    use super::Registers;

    pub fn registers() -> Registers {
        Registers::default()
    }

    pub fn request_permission() -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Sapphire Rapids virtual machine whose CPUID ends before leaf 0x1D.
    const VIRTUAL: Registers = Registers {
        leaves: 0x16,
        system: OSXSAVE | 1 << 26,
        features: FEATURES | 1 << 22,
        state: TILE_STATE | 0b1110_0111,
    };

    #[test]
    fn a_hidden_tile_leaf_does_not_matter() {
        assert!(VIRTUAL.support_tiles());
        assert!(Registers { leaves: 0x20, ..VIRTUAL }.support_tiles());
    }

    #[test]
    fn every_missing_bit_refuses() {
        for bit in [24, 25] {
            assert!(!Registers { features: VIRTUAL.features & !(1 << bit), ..VIRTUAL }.support_tiles());
        }
        for bit in [17, 18] {
            assert!(!Registers { state: VIRTUAL.state & !(1 << bit), ..VIRTUAL }.support_tiles());
        }
        assert!(!Registers { system: VIRTUAL.system & !OSXSAVE, ..VIRTUAL }.support_tiles());
        assert!(!Registers { leaves: 6, ..VIRTUAL }.support_tiles());
        assert!(!Registers::default().support_tiles());
    }

    #[test]
    fn permission_is_requested_last_and_its_refusal_counts() {
        assert!(permits(None, VIRTUAL, || true));
        assert!(!permits(None, VIRTUAL, || false));
        assert!(!permits(None, Registers::default(), || panic!("requested without support")));
    }

    #[test]
    fn the_user_can_switch_it_off() {
        for value in ["off", "OFF", "0", "no", "false"] {
            assert!(!permits(Some(value), VIRTUAL, || panic!("requested although switched off")));
        }
        assert!(permits(Some("on"), VIRTUAL, || true) && permits(Some(""), VIRTUAL, || true));
    }
}
