//! Other programs read recordings and tables as ordinary Arrow: pyarrow, polars and, where it is there, DuckDB.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests are tests")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::{recorded, story};
use vramscope_recording::{Cell, CellType, Format, TableWriter};

/// A Python that has pyarrow and polars: the one `VRAMSCOPE_PYTHON` names, or the one in `target/python`.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("VRAMSCOPE_PYTHON").map(PathBuf::from);
    let path = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python3"));
    let works =
        Command::new(&path).args(["-c", "import pyarrow, polars"]).output().is_ok_and(|done| done.status.success());
    if !works {
        println!("skipped: no Python with pyarrow and polars at {} (see .ci/run)", path.display());
    }
    works.then_some(path)
}

/// Runs a script on a file and gives its output.
fn run(python: &Path, script: &str, bytes: &[u8]) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("vramscope-{}-{number}", std::process::id()));
    std::fs::write(&file, bytes).unwrap();
    let done = Command::new(python).args(["-c", script]).arg(&file).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

const PYARROW: &str = "
import sys, pyarrow.ipc
t = pyarrow.ipc.open_stream(sys.argv[1]).read_all()
t.validate(full=True)
print(t.schema.metadata[b'vramscope.version'].decode())
for r in t.select(['kind', 'id', 'frames', 'text']).to_pylist():
    if r['kind'] == 'stack': print('stack', r['id'], r['frames'])
    if r['kind'] == 'name': print('name', r['id'], ascii(r['text']))
print([t.column('kind').to_pylist().count(k) for k in ('block_alloc', 'mark', 'run')])
print([n for n in t.column_names if t.column(n).null_count == t.num_rows])
";

const POLARS: &str = "
import sys, polars as pl
t = pl.read_ipc_stream(sys.argv[1])
print([t.filter(pl.col('kind') == k).height for k in ('block_alloc', 'mark', 'run')])
print(t['address'].max(), t['bytes'].max(), t['time'].dtype)
stacks = t.filter(pl.col('kind') == 'stack').select('id', 'frames').explode('frames')
frames = t.filter(pl.col('kind') == 'frame').select('id', 'file', 'function', 'line')
names = t.filter(pl.col('kind') == 'name').select('id', 'text')
told = stacks.join(frames, left_on='frames', right_on='id').join(names, left_on='file', right_on='id')
print(told.filter(pl.col('id') == 1).select('text').item(0, 0))
";

#[test]
fn pyarrow_and_polars_read_recordings() {
    let Some(python) = python() else { return };
    let (batches, info) = story();
    let bytes = recorded(&batches, Some(&info));
    let text = run(&python, PYARROW, &bytes);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("1"));
    for line in
        ["stack 0 []", "stack 1 [0]", "name 0 ''", "name 1 'train.py'", "name 4 'a\\nb\\x00c'", "[3, 3, 19]", "[]"]
    {
        assert!(text.lines().any(|known| known == line), "{line} in {text}");
    }
    let text = run(&python, POLARS, &bytes);
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        [
            "[3, 3, 19]",
            "18446744073709551615 18446744073709551615 Datetime(time_unit='ns', time_zone='UTC')",
            "train.py"
        ]
    );
}

#[test]
fn pyarrow_reads_up_to_a_tear() {
    let Some(python) = python() else { return };
    let (batches, info) = story();
    let bytes = recorded(&batches, Some(&info));
    let script = "
import sys, pyarrow as pa, pyarrow.ipc
rows = 0
try:
    for batch in pyarrow.ipc.open_stream(sys.argv[1]): rows += batch.num_rows
except pa.ArrowInvalid: pass
print(rows)
";
    let cut = support::borders(&bytes).into_iter().rev().nth(1).unwrap() + 100;
    let rows: u64 = run(&python, script, &bytes[..cut]).trim().parse().unwrap();
    assert!(rows >= 42, "{rows} rows before the tear");
}

#[test]
fn duckdb_reads_recordings_where_it_is_there() {
    let Some(python) = python() else { return };
    if !Command::new(&python).args(["-c", "import duckdb"]).output().is_ok_and(|done| done.status.success()) {
        return println!("skipped: that Python has no duckdb");
    }
    let (batches, info) = story();
    let script = "
import sys, duckdb, pyarrow.ipc
recording = pyarrow.ipc.open_stream(sys.argv[1])
print(duckdb.sql(\"select kind, count(*) from recording where origin is not null group by kind order by kind limit 1\").fetchall())
";
    assert_eq!(run(&python, script, &recorded(&batches, Some(&info))).trim(), "[('annotation_begin', 3)]");
}

#[test]
fn polars_reads_tables() {
    let Some(python) = python() else { return };
    let columns = [("text", CellType::Text), ("when", CellType::Time), ("n", CellType::Number), ("f", CellType::Flag)];
    let write = |format| {
        let mut table = TableWriter::new(Vec::new(), format, &columns).unwrap();
        table.row(&[Cell::Text("a,\"b\"\n"), Cell::Time(1_000), Cell::Number(u64::MAX), Cell::Flag(true)]).unwrap();
        table.row(&[Cell::Text(""), Cell::Unknown, Cell::Unknown, Cell::Unknown]).unwrap();
        table.finish().unwrap()
    };
    let arrow = "import sys, polars as pl\nprint(pl.read_ipc(sys.argv[1]).rows())";
    let text = run(&python, arrow, &write(Format::Arrow));
    assert!(
        text.contains("'a,\"b\"\\n'") && text.contains("18446744073709551615, True), ('', None, None, None)]"),
        "{text}"
    );
    let csv = "import sys, csv\nprint(list(csv.reader(open(sys.argv[1], newline=''))))";
    let text = run(&python, csv, &write(Format::Csv));
    assert!(text.contains("['a,\"b\"\\n', '1', '18446744073709551615', 'true'], ['', '', '', '']"), "{text}");
}
