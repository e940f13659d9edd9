//! Small typed identifiers: times, devices, streams, pools, and references into the dictionary.

use std::fmt;

/// A moment: nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeNs(pub i64);

impl TimeNs {
    /// From Unix microseconds, the unit of PyTorch snapshots. Saturates at the ends of the range (years 1677 and 2262).
    pub fn from_micros(micros: i64) -> Self {
        Self(micros.saturating_mul(1000))
    }

    /// Unix microseconds, rounded towards the past.
    pub fn micros(self) -> i64 {
        self.0.div_euclid(1000)
    }
}

/// Ordinal of a device as its process numbers them, 0-based.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u16);

/// The process an event belongs to, by its PID. 0 stands for "the process that wrote this file", whose PID a file does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// A CUDA stream, by the raw handle PyTorch writes: 0 is the default stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("default stream"),
            handle @ 1..=4095 => write!(f, "stream {handle}"),
            handle => write!(f, "stream {handle:#x}"),
        }
    }
}

/// Which of the allocator's two size pools: small holds requests of up to 1 MiB in 2 MiB segments, large the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SizeClass {
    /// Requests of up to 1 MiB.
    Small,
    /// Requests above 1 MiB.
    Large,
}

/// PyTorch's pool id: `(0, 0)` is the default pool, `(n, 0)` a CUDA graph's, `(0, n)` a user's `MemPool` or graph pool handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolOwner(pub u32, pub u32);

impl PoolOwner {
    /// The pool that ordinary allocations use.
    pub const DEFAULT: Self = Self(0, 0);

    /// Whether only its owner (a CUDA graph or a `MemPool`) may allocate from it.
    pub fn is_private(self) -> bool {
        self != Self::DEFAULT
    }
}

/// A pool of the caching allocator. Free memory of one pool never serves another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pool {
    /// The owner; anything but the default is a private pool.
    pub owner: PoolOwner,
    /// Small or large requests.
    pub class: SizeClass,
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = match self.class {
            SizeClass::Small => "small",
            SizeClass::Large => "large",
        };
        if self.owner.is_private() {
            write!(f, "private ({}, {}) {class}", self.owner.0, self.owner.1)
        } else {
            f.write_str(class)
        }
    }
}

/// Names a text in a [`crate::Dictionary`]. Id 0 is the empty text in every dictionary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub u32);

/// Names a stack frame in a [`crate::Dictionary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u32);

/// Names a call stack in a [`crate::Dictionary`]. Id 0 is the empty stack, which means "no stack recorded".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(pub u32);

impl StackId {
    /// No stack was recorded.
    pub const NONE: Self = Self(0);
}

/// What a counter sample counts, device-wide unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counter {
    /// The device's total memory in bytes.
    DeviceTotal,
    /// Bytes in use on the device, by every process.
    DeviceUsed,
    /// Bytes in use by this process, as the driver counts them.
    ProcessUsed,
    /// Bytes free on the device. Free and used need not add up to the total.
    DeviceFree,
    /// Bytes the driver keeps for itself and counts neither as used nor as free.
    DeviceReserved,
    /// Bytes of segments of this process's framework allocator, by its own count.
    FrameworkReserved,
    /// Bytes of blocks in use of this process's framework allocator, by its own count.
    FrameworkAllocated,
    /// Bytes this process took from the driver outside its framework's allocator: libraries, communicators, the user's own.
    OutsideFramework,
    /// Bytes of host memory this process has pinned for the devices, all of them together.
    HostPinned,
    /// Percent of the time in which the device was busy.
    BusyPercent,
    /// Temperature in degrees Celsius.
    Temperature,
    /// Power drawn, in milliwatts.
    Power,
}

impl Counter {
    /// Every counter.
    pub const ALL: [Self; 12] = [
        Self::DeviceTotal,
        Self::DeviceUsed,
        Self::ProcessUsed,
        Self::DeviceFree,
        Self::DeviceReserved,
        Self::FrameworkReserved,
        Self::FrameworkAllocated,
        Self::OutsideFramework,
        Self::HostPinned,
        Self::BusyPercent,
        Self::Temperature,
        Self::Power,
    ];
}
