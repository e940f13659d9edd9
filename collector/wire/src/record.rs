//! The fixed-size record: eight words that say one thing that happened in a job.
//!
//! Word 0 is [`Meta`], word 1 the monotonic time in ns, words 2 to 7 depend on the kind:
//!
//! | kind | 2 | 3 | 4 | 5 |
//! | --- | --- | --- | --- | --- |
//! | `BlockAlloc`, `BlockFree` | address | block bytes | allocated after | reserved after |
//! | `OutOfMemory` | – | requested bytes | allocated | reserved |
//! | `DeviceAlloc` | address | bytes | stream | – |
//! | `DeviceFree` | address | – | stream | – |
//! | `PhysicalCreate` | handle | bytes | – | – |
//! | `PhysicalRelease` | handle | – | – | – |
//! | `Map` | address | bytes | handle | offset |
//! | `Unmap` | address | bytes | – | – |
//! | `HostAlloc`, `HostFree` | address | bytes (0 in a free) | – | – |
//! | `CallFailed` | what the call was given (address or handle; 0 for an allocation) | bytes asked for | device bytes free then | error code |
//! | `Device` | UUID bytes 0–7 | UUID bytes 8–15 | total bytes | – |
//! | `Mark`, `RangeBegin`, `RangeEnd`, `Name` | id (0 = the thread's own stack) | bytes of text | text, words 4 to 7 | … |
//! | `MoreText` | words 1 to 7 are text | | | |

use crate::RECORD_WORDS;

/// The device of a record that does not know it.
pub const UNKNOWN_DEVICE: u8 = u8::MAX;

/// Bits of [`Meta::flags`].
pub mod flags {
    /// A caching allocator that reports its blocks (libc10) is loaded in this process.
    pub const FRAMEWORK: u8 = 1;
    /// The text was longer than a record row holds.
    pub const CUT: u8 = 2;
}

macro_rules! numbered {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $number:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $variant = $number,)* }

        impl $name {
            /// From the number in a record; `None` for one this version does not know.
            pub fn from_number(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }

            /// Its name, for text dumps.
            pub fn label(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)* }
            }
        }
    };
}

numbered! {
    /// What happened.
    Kind {
        /// The framework's allocator handed out a block.
        BlockAlloc = 1,
        /// The framework's allocator was given a block back.
        BlockFree = 2,
        /// The framework's allocator gave up.
        OutOfMemory = 3,
        /// The driver handed out device memory.
        DeviceAlloc = 4,
        /// Device memory is about to go back to the driver.
        DeviceFree = 5,
        /// Physical memory was created, not mapped anywhere yet.
        PhysicalCreate = 6,
        /// A handle of physical memory is about to be given up.
        PhysicalRelease = 7,
        /// Physical memory was mapped to addresses.
        Map = 8,
        /// Addresses are about to lose their memory.
        Unmap = 9,
        /// Host memory was pinned.
        HostAlloc = 10,
        /// Host memory is about to be unpinned.
        HostFree = 11,
        /// A driver call failed; for a free, the free recorded just before did not happen.
        CallFailed = 12,
        /// A device was seen for the first time.
        Device = 13,
        /// A named instant.
        Mark = 14,
        /// A named span began.
        RangeBegin = 15,
        /// A named span ended.
        RangeEnd = 16,
        /// A text got a number, which ranges may use instead.
        Name = 17,
        /// More of the text of the record before.
        MoreText = 18,
    }
}

numbered! {
    /// Which function said so.
    Api {
        /// None in particular.
        None = 0,
        /// PyTorch's allocator.
        C10 = 1,
        /// `cuMemAlloc`, `cuMemFree`.
        MemAlloc = 2,
        /// `cuMemAllocPitch`.
        Pitch = 3,
        /// `cuMemAllocManaged`.
        Managed = 4,
        /// `cuMemAllocAsync`, `cuMemFreeAsync`.
        Async = 5,
        /// `cuMemAllocFromPoolAsync`.
        FromPool = 6,
        /// `cuMemCreate`, `cuMemRelease`, `cuMemMap`, `cuMemUnmap`.
        Virtual = 7,
        /// `cuMemHostAlloc`, `cuMemAllocHost`, `cuMemFreeHost`.
        Host = 8,
        /// `cuMemHostRegister`, `cuMemHostUnregister`.
        Register = 9,
        /// An NVTX range or mark.
        Nvtx = 10,
        /// The exported mark function.
        Hook = 11,
    }
}

/// The first word of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// What happened.
    pub kind: Kind,
    /// Device ordinal in its process, or [`UNKNOWN_DEVICE`].
    pub device: u8,
    /// Which function said so.
    pub api: Api,
    /// Bits of [`flags`].
    pub flags: u8,
    /// The thread, by the kernel's number.
    pub thread: u32,
}

impl Meta {
    /// As a word.
    #[inline]
    pub fn word(self) -> u64 {
        u64::from(self.kind as u8)
            | u64::from(self.device) << 8
            | u64::from(self.api as u8) << 16
            | u64::from(self.flags) << 24
            | u64::from(self.thread) << 32
    }
}

/// One record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record(pub [u64; RECORD_WORDS]);

impl Record {
    /// A record with up to four numbers.
    #[inline]
    pub fn new(meta: Meta, time_ns: u64, numbers: [u64; 4]) -> Self {
        let [a, b, c, d] = numbers;
        Self([meta.word(), time_ns, a, b, c, d, 0, 0])
    }

    /// The first word; `None` if it names a kind or function this version does not know.
    pub fn meta(&self) -> Option<Meta> {
        let word = self.0[0];
        Some(Meta {
            kind: Kind::from_number(word as u8)?,
            device: (word >> 8) as u8,
            api: Api::from_number((word >> 16) as u8)?,
            flags: (word >> 24) as u8,
            thread: (word >> 32) as u32,
        })
    }

    /// Monotonic time in ns.
    pub fn time_ns(&self) -> u64 {
        self.0[1]
    }

    /// The four numbers; their meaning is the kind's.
    pub fn numbers(&self) -> [u64; 4] {
        [self.0[2], self.0[3], self.0[4], self.0[5]]
    }
}
