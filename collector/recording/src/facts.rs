//! Facts about the run as a whole, one a row: a key, and a text or a number.
//!
//! | key | told by | |
//! | --- | --- | --- |
//! | `format` | text | what the run was first read from; begins the facts anew |
//! | `devices_visible`, `annotations`, `host_bytes`, `host_entries` | value | see `RunInfo` |
//! | `truncated` | device | its history does not begin at its first allocation |
//! | `entries` | device, value | events of that device, as the source counts them |
//! | `settings` | | the allocator's settings are known; those that follow are not at their default |
//! | `settings.conf` | text | the settings text |
//! | `settings.max_split_size`, `settings.expandable_segments` | value | |
//! | `settings.garbage_collection_threshold` | text | a decimal number |
//! | `settings.roundup_power2_divisions` | id, value | divisions of an interval |
//! | `setting.NAME` | text | a setting as the source wrote it |

use vramscope_trace::{AllocatorSettings, RunInfo};

use crate::row::Row;
use crate::schema::Kind;

fn run(key: &str) -> Row<'_> {
    Row { kind: Kind::Run, key: Some(key), ..Row::default() }
}

/// Prefix of the keys that carry settings as the source wrote them.
const AS_WRITTEN: &str = "setting.";

/// Hands the rows of facts to `tell`, in order.
pub(crate) fn rows(info: &RunInfo, tell: &mut dyn FnMut(&Row<'_>)) {
    tell(&Row { text: Some(&info.format), ..run("format") });
    tell(&Row { value: Some(info.devices_visible.into()), ..run("devices_visible") });
    for device in &info.truncated_devices {
        tell(&Row { device: Some(*device), ..run("truncated") });
    }
    for (device, entries) in &info.entries_by_device {
        tell(&Row { device: Some(*device), value: Some(*entries), ..run("entries") });
    }
    tell(&Row { value: Some(info.annotations), ..run("annotations") });
    if info.host_bytes.is_some() {
        tell(&Row { value: info.host_bytes, ..run("host_bytes") });
    }
    tell(&Row { value: Some(info.host_entries), ..run("host_entries") });
    let Some(settings) = &info.settings else { return };
    tell(&run("settings"));
    if settings.conf.is_some() {
        tell(&Row { text: settings.conf.as_deref(), ..run("settings.conf") });
    }
    if settings.max_split_size.is_some() {
        tell(&Row { value: settings.max_split_size, ..run("settings.max_split_size") });
    }
    if settings.garbage_collection_threshold != 0.0 {
        let text = settings.garbage_collection_threshold.to_string();
        tell(&Row { text: Some(&text), ..run("settings.garbage_collection_threshold") });
    }
    if settings.expandable_segments {
        tell(&Row { value: Some(1), ..run("settings.expandable_segments") });
    }
    for (interval, divisions) in (0..).zip(settings.roundup_power2_divisions).filter(|(_, divisions)| *divisions != 0) {
        let row = run("settings.roundup_power2_divisions");
        tell(&Row { id: Some(interval), value: Some(divisions.into()), ..row });
    }
    for (name, value) in &settings.all {
        let key = format!("{AS_WRITTEN}{name}");
        tell(&Row { text: Some(value), ..run(&key) });
    }
}

/// Takes one row into `info`; a format begins it anew. False if the row says nothing this version knows.
pub(crate) fn take(row: &Row<'_>, info: &mut RunInfo) -> bool {
    let Some(key) = row.key else { return false };
    if key == "format" {
        *info = RunInfo { format: row.text.unwrap_or_default().to_owned(), ..RunInfo::default() };
        return row.text.is_some();
    }
    if key.starts_with("setting") {
        return take_setting(key, row, info.settings.get_or_insert_default()).is_some();
    }
    match (key, row.device, row.value) {
        ("devices_visible", _, Some(count)) => info.devices_visible = u16::try_from(count).unwrap_or(u16::MAX),
        ("truncated", Some(device), _) => info.truncated_devices.push(device),
        ("entries", Some(device), Some(entries)) => info.entries_by_device.push((device, entries)),
        ("annotations", _, Some(count)) => info.annotations = count,
        ("host_bytes", _, Some(bytes)) => info.host_bytes = Some(bytes),
        ("host_entries", _, Some(count)) => info.host_entries = count,
        _ => return false,
    }
    true
}

fn take_setting(key: &str, row: &Row<'_>, settings: &mut AllocatorSettings) -> Option<()> {
    match key {
        "settings" => {}
        "settings.conf" => settings.conf = Some(row.text?.to_owned()),
        "settings.max_split_size" => settings.max_split_size = Some(row.value?),
        "settings.garbage_collection_threshold" => settings.garbage_collection_threshold = row.text?.parse().ok()?,
        "settings.expandable_segments" => settings.expandable_segments = row.value? != 0,
        "settings.roundup_power2_divisions" => {
            let place = settings.roundup_power2_divisions.get_mut(row.id? as usize)?;
            *place = u32::try_from(row.value?).ok()?;
        }
        _ => {
            let name = key.strip_prefix(AS_WRITTEN)?;
            settings.all.push((name.to_owned(), row.text?.to_owned()));
        }
    }
    Some(())
}
