//! Reads `PYTORCH_CUDA_ALLOC_CONF` texts: `option:value,option:[a:b,c:d]`.
//!
//! Options that change nothing here (pinned host memory, locks) are accepted where PyTorch accepts them.

use crate::policy::{Limit, Policy, Torch};

const MIB: u64 = 1 << 20;

/// The policy a settings text stands for, under a version of PyTorch and a capacity in bytes.
///
/// The capacity is the cap that the program sets (`set_per_process_memory_fraction`), unless the text itself has a fraction:
/// then it is what the device has.
///
/// # Errors
/// One sentence about the first thing PyTorch of that version would refuse.
pub fn parse(text: &str, torch: Torch, capacity: Option<u64>) -> Result<Policy, String> {
    let mut policy = Policy::new(torch);
    policy.limit = capacity.map_or(Limit::None, Limit::Fraction);
    for (option, value) in options(text)? {
        apply(&mut policy, option, value, capacity)?;
    }
    if policy.settings.max_split_size.is_some_and(|size| size <= policy.large_segment) {
        return Err("max_split_size_mb must be above large_segment_size_mb (20 unless set)".to_owned());
    }
    policy.settings.conf = Some(text.trim().to_owned());
    Ok(policy)
}

/// Splits at the commas outside of brackets.
fn options(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let mut found = Vec::new();
    let mut depth = 0_u32;
    let pieces = text.split(|letter| {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    });
    for piece in pieces.map(str::trim).filter(|piece| !piece.is_empty()) {
        let (option, value) =
            piece.split_once(':').ok_or_else(|| format!("\u{201c}{piece}\u{201d} is not of the form option:value"))?;
        found.push((option.trim(), value.trim()));
    }
    Ok(found)
}

/// The version that brought an option; `None` for one that no version from 2.0 on has.
fn since(option: &str) -> Option<u16> {
    Some(match option {
        "max_split_size_mb" | "garbage_collection_threshold" | "roundup_power2_divisions" | "backend" => 0,
        "expandable_segments" => 1,
        "release_lock_on_cudamalloc"
        | "release_lock_on_hipmalloc"
        | "pinned_use_cuda_host_register"
        | "pinned_use_hip_host_register"
        | "pinned_num_register_threads" => 2,
        "max_non_split_rounding_mb" | "pinned_use_background_threads" => 6,
        "graph_capture_record_stream_reuse" => 9,
        "per_process_memory_fraction" | "pinned_reserve_segment_size_mb" => 10,
        "large_segment_size_mb" => 11,
        "throw_on_cudamalloc_oom" | "pinned_free_catch_all" => 12,
        "pinned_max_round_threshold_mb" | "pinned_max_cached_size_mb" => 13,
        "expandable_segments_reserve" | "expandable_segments_reserve_by_class" => 15,
        _ => return None,
    })
}

fn apply(policy: &mut Policy, option: &str, value: &str, capacity: Option<u64>) -> Result<(), String> {
    let since = since(option).ok_or_else(|| format!("PyTorch has no allocator option \u{201c}{option}\u{201d}"))?;
    if policy.torch < Torch::v2(since) {
        let Torch { major, minor } = policy.torch;
        return Err(format!("PyTorch {major}.{minor} has no option {option}, which came with 2.{since}"));
    }
    let above_20 = |value: &str| match value.parse::<u64>() {
        Ok(mebibytes) if mebibytes > 20 => Ok(mebibytes.saturating_mul(MIB)),
        _ => Err(format!("{option} must be a whole number above 20, not \u{201c}{value}\u{201d}")),
    };
    match option {
        "max_split_size_mb" => policy.settings.max_split_size = Some(above_20(value)?),
        "max_non_split_rounding_mb" => policy.max_non_split_rounding = above_20(value)?,
        "large_segment_size_mb" => {
            let size = value.parse::<u64>().ok().filter(|size| *size >= 20 && size.is_multiple_of(2));
            let size =
                size.ok_or_else(|| format!("{option} must be an even number from 20 on, not \u{201c}{value}\u{201d}"))?;
            policy.large_segment = size.saturating_mul(MIB);
        }
        "garbage_collection_threshold" => {
            policy.settings.garbage_collection_threshold = share(option, value).and_then(|share| {
                if share > 0.0 && share < 1.0 { Ok(share) } else { Err(format!("{option} must lie between 0 and 1")) }
            })?;
        }
        "roundup_power2_divisions" => policy.settings.roundup_power2_divisions = divisions(value)?,
        "expandable_segments" => policy.settings.expandable_segments = truth(option, value)?,
        "throw_on_cudamalloc_oom" => policy.throw_at_cap = truth(option, value)?,
        "per_process_memory_fraction" => {
            let share = share(option, value)?;
            policy.limit = match capacity {
                Some(bytes) if share < 1.0 => Limit::Fraction((share * bytes as f64) as u64),
                Some(bytes) => Limit::Device(bytes),
                None => Limit::None,
            };
        }
        "expandable_segments_reserve" => policy.reservation = reservation(value, capacity)?,
        "backend" if value != "native" => {
            return Err(format!("only the native allocator is simulated, not backend:{value}"));
        }
        _ => {}
    }
    Ok(())
}

fn truth(option: &str, value: &str) -> Result<bool, String> {
    match value {
        "True" => Ok(true),
        "False" => Ok(false),
        _ => Err(format!("{option} must be True or False, not \u{201c}{value}\u{201d}")),
    }
}

fn share(option: &str, value: &str) -> Result<f64, String> {
    let share = value.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("{option} must be a number from 0 to 1, not \u{201c}{value}\u{201d}"))
}

/// One number for all sizes, or a list of `mebibytes:divisions`; the first pair also holds below, `>` from the last size up.
fn divisions(value: &str) -> Result<[u32; 16], String> {
    let number = |text: &str| {
        let number = text.trim().parse::<u32>().ok().filter(|number| *number == 0 || number.is_power_of_two());
        number
            .ok_or_else(|| format!("roundup_power2_divisions needs powers of two, not \u{201c}{}\u{201d}", text.trim()))
    };
    let Some(list) = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        return Ok([number(value)?; 16]);
    };
    let mut table = [0_u32; 16];
    let mut next = 0;
    for (index, pair) in list.split(',').enumerate() {
        let (size, parts) = pair
            .split_once(':')
            .ok_or_else(|| format!("\u{201c}{}\u{201d} is not of the form size:divisions", pair.trim()))?;
        let parts = number(parts)?;
        if size.trim() == ">" {
            table[next.min(15)..].fill(parts);
            continue;
        }
        let interval = (number(size)?.max(1).ilog2() as usize).min(15);
        if index == 0 {
            table[..interval].fill(parts);
        }
        table[interval] = parts;
        next = interval;
    }
    Ok(table)
}

/// "0.5" of the device, or "40G".
fn reservation(value: &str, capacity: Option<u64>) -> Result<Option<u64>, String> {
    let wrong = || {
        format!(
            "expandable_segments_reserve must be a share such as 0.5 or a size such as 40G, not \u{201c}{value}\u{201d}"
        )
    };
    let unit = match value.chars().last() {
        Some('G') => Some(1_u64 << 30),
        Some('M') => Some(MIB),
        Some('K') => Some(1 << 10),
        _ => None,
    };
    if let Some(unit) = unit {
        let count = value[..value.len() - 1].parse::<u64>().map_err(|_| wrong())?;
        return Ok(Some(count.saturating_mul(unit)));
    }
    let share = value.parse::<f64>().ok().filter(|share| *share > 0.0).ok_or_else(wrong)?;
    Ok(capacity.map(|bytes| (bytes as f64 * share) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Policy {
        parse(text, Torch::NEWEST, Some(1000 * MIB)).unwrap()
    }

    #[test]
    fn every_option_that_changes_the_allocator_is_read() {
        let policy = read(
            "expandable_segments:True, max_split_size_mb:64,max_non_split_rounding_mb:32,large_segment_size_mb:40",
        );
        assert!(policy.settings.expandable_segments);
        assert_eq!(policy.settings.max_split_size, Some(64 * MIB));
        assert_eq!((policy.max_non_split_rounding, policy.large_segment), (32 * MIB, 40 * MIB));
        assert_eq!(read("garbage_collection_threshold:0.7").collects_at(), Some(700 * MIB));
        assert!(read("throw_on_cudamalloc_oom:True").throw_at_cap);
        assert_eq!(read("expandable_segments_reserve:2G").reservation, Some(2048 * MIB));
        assert_eq!(read("expandable_segments_reserve:0.5").reservation, Some(500 * MIB));
        assert_eq!(read("").limit, Limit::Fraction(1000 * MIB));
        assert_eq!(read("per_process_memory_fraction:0.5").limit, Limit::Fraction(500 * MIB));
        assert_eq!(read("per_process_memory_fraction:1.0").limit, Limit::Device(1000 * MIB));
    }

    #[test]
    fn divisions_come_as_a_number_or_by_size() {
        assert_eq!(read("roundup_power2_divisions:4").settings.roundup_power2_divisions, [4; 16]);
        let table = read("roundup_power2_divisions:[4:2,16:8,>:1],expandable_segments:False").settings;
        assert_eq!(table.roundup_power2_divisions[..4], [2, 2, 2, 0]);
        assert_eq!(table.roundup_power2_divisions[4..], [1; 12]);
        let table = read("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]").settings.roundup_power2_divisions;
        assert_eq!(table, [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 8, 8, 8, 8, 8, 8]);
    }

    #[test]
    fn what_pytorch_refuses_is_refused_in_words() {
        for (text, word) in [
            ("max_split_size_mb:20", "above 20"),
            ("max_split_size_mb:30,large_segment_size_mb:30", "above large_segment"),
            ("expandable_segments:true", "True or False"),
            ("colour:blue", "no allocator option"),
            ("roundup_power2_divisions:3", "powers of two"),
            ("roundup_bypass_threshold_mb:100", "no allocator option"),
            ("garbage_collection_threshold:1.5", "number from 0 to 1"),
            ("backend:cudaMallocAsync", "native"),
            ("expandable_segments", "option:value"),
        ] {
            let error = parse(text, Torch::NEWEST, None).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
        assert!(parse("expandable_segments:True", Torch::v2(0), None).unwrap_err().contains("2.1"));
        assert!(parse("max_non_split_rounding_mb:32", Torch::v2(5), None).is_err());
        assert!(parse("large_segment_size_mb:32", Torch::v2(10), None).is_err());
    }
}
