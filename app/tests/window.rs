//! The real window, used as a person would: Xvfb is the screen, xdotool the hands. Needs Debian's packages `xvfb`, `xdotool`,
//! `imagemagick`, `libxcursor1`, `libxi6` and `libxkbcommon-x11-0`, so it is a command of its own:
//! `cargo test -p vramscope --test window -- --ignored --test-threads 1`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process that ends with its owner.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A screen with the program on it.
struct Screen {
    program: Process,
    _server: Process,
    display: String,
    folder: tempfile::TempDir,
    window: String,
}

/// A screenshot: width, height and RGB bytes.
struct Shot {
    width: usize,
    pixels: Vec<[u8; 3]>,
}

impl Screen {
    /// Opens the program with those arguments on a screen of its own and waits for its window.
    fn open(number: u32, arguments: &[&str]) -> Self {
        let display = format!(":{}", 2000 + number * 500 + std::process::id() % 500);
        let server = Command::new("Xvfb")
            .args([&display, "-screen", "0", "1280x800x24", "-nolisten", "tcp"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("Xvfb is not installed");
        let folder = tempfile::tempdir().unwrap();
        let program = Command::new(env!("CARGO_BIN_EXE_vramscope"))
            .args(arguments)
            .env("DISPLAY", &display)
            .env_remove("WAYLAND_DISPLAY")
            .env("XDG_RUNTIME_DIR", folder.path())
            .stdout(Stdio::null())
            .spawn();
        // The server may need a moment; the program is started again until it finds it.
        let mut screen = Self {
            program: Process(program.unwrap()),
            _server: Process(server),
            display,
            folder,
            window: String::new(),
        };
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(30) {
            if screen.program.0.try_wait().unwrap().is_some() {
                let again = Command::new(env!("CARGO_BIN_EXE_vramscope"))
                    .args(arguments)
                    .env("DISPLAY", &screen.display)
                    .env_remove("WAYLAND_DISPLAY")
                    .env("XDG_RUNTIME_DIR", screen.folder.path())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn();
                screen.program = Process(again.unwrap());
            }
            let found = screen.run("xdotool", &["search", "--onlyvisible", "--name", "vramscope"]);
            if let Some(window) = found.lines().next() {
                screen.window = window.to_owned();
                screen.run("xdotool", &["windowfocus", &screen.window]);
                return screen;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        panic!("no window appeared");
    }

    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).env("DISPLAY", &self.display).output();
        String::from_utf8_lossy(&output.unwrap_or_else(|error| panic!("{program}: {error}")).stdout).into_owned()
    }

    fn mouse(&self, x: i32, y: i32, then: &[&str]) {
        let (x, y) = (x.to_string(), y.to_string());
        let mut arguments = vec!["mousemove", "--window", &self.window, &x, &y];
        arguments.extend(then);
        self.run("xdotool", &arguments);
    }

    /// Presses keys. Without a window manager nobody but us gives the window the keyboard.
    fn keys(&self, keys: &[&str]) {
        self.run("xdotool", &["windowfocus", "--sync", &self.window]);
        let mut arguments = vec!["key", "--delay", "40"];
        arguments.extend(keys);
        self.run("xdotool", &arguments);
    }

    /// Processor time the program has used so far, in hundredths of a second.
    fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.program.0.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    /// A screenshot once the picture has stopped changing.
    fn shot(&self, name: &str) -> Shot {
        let mut last = self.grab(name);
        for _ in 0..40 {
            std::thread::sleep(Duration::from_millis(250));
            let next = self.grab(name);
            if next.pixels == last.pixels {
                return next;
            }
            last = next;
        }
        panic!("{name}: the picture never comes to rest");
    }

    fn grab(&self, name: &str) -> Shot {
        let path = self.folder.path().join(format!("{name}.png"));
        self.run("import", &["-window", "root", "-depth", "8", &format!("png24:{}", path.display())]);
        if let Ok(folder) = std::env::var("VRAMSCOPE_SHOTS") {
            std::fs::copy(&path, Path::new(&folder).join(format!("{name}.png"))).unwrap();
        }
        read(&path)
    }
}

fn read(path: &PathBuf) -> Shot {
    let decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(path).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    assert_eq!(info.color_type, png::ColorType::Rgb);
    Shot { width: info.width as usize, pixels: bytes.as_chunks::<3>().0.to_vec() }
}

/// The part of pixels in rows `from..to` (as parts of the height) that differ.
fn changed(a: &Shot, b: &Shot, from: f64, to: f64) -> f64 {
    let height = a.pixels.len() / a.width;
    let rows = (height as f64 * from) as usize * a.width..(height as f64 * to) as usize * a.width;
    let differing = a.pixels[rows.clone()].iter().zip(&b.pixels[rows.clone()]).filter(|(a, b)| a != b).count();
    differing as f64 / rows.len() as f64
}

fn colours(shot: &Shot) -> usize {
    shot.pixels.iter().collect::<std::collections::HashSet<_>>().len()
}

#[test]
#[ignore = "needs Xvfb, xdotool and ImageMagick"]
fn a_recording_opens_and_the_cursor_moves() {
    let mut screen = Screen::open(1, &["open", "--demo", "gpt_fp32"]);
    let opened = screen.shot("opened");
    assert!(colours(&opened) > 60, "only {} colours: nothing was drawn", colours(&opened));

    screen.mouse(300, 300, &["click", "1"]);
    screen.mouse(640, 4, &[]);
    let clicked = screen.shot("clicked");
    assert!(changed(&opened, &clicked, 0.0, 1.0) > 0.002, "a click on the timeline changed nothing");
    assert!(changed(&opened, &clicked, 0.6, 0.95) > 0.002, "the map did not follow the cursor");

    screen.keys(&["Right"; 30]);
    let stepped = screen.shot("stepped");
    assert!(changed(&clicked, &stepped, 0.0, 1.0) > 0.0, "arrow keys changed nothing");

    screen.mouse(500, 300, &["click", "--repeat", "6", "4"]);
    screen.mouse(640, 4, &[]);
    let zoomed = screen.shot("zoomed");
    assert!(changed(&stepped, &zoomed, 0.15, 0.5) > 0.01, "the wheel did not zoom the timeline");

    assert!(screen.program.0.try_wait().unwrap().is_none(), "the program ended by itself");
}

#[test]
#[ignore = "needs Xvfb, xdotool and ImageMagick"]
fn the_start_page_offers_demos_and_opens_one() {
    let screen = Screen::open(2, &[]);
    let page = screen.shot("start");
    assert!(colours(&page) > 30, "the start page is empty");
    screen.keys(&["question"]);
    let help = screen.shot("start-help");
    assert!(changed(&page, &help, 0.0, 1.0) > 0.02, "? did not open the list of keys");
    screen.keys(&["Escape"]);
    let again = screen.shot("start-again");
    assert!(changed(&page, &again, 0.0, 1.0) < 0.001, "Escape did not close the list of keys");
    screen.keys(&["1"]);
    let opened = screen.shot("start-opened");
    assert!(changed(&page, &opened, 0.0, 1.0) > 0.02, "key 1 did not open the first demo");
}

#[test]
#[ignore = "needs Xvfb, xdotool and ImageMagick"]
fn a_window_at_rest_uses_no_processor_time() {
    let screen = Screen::open(3, &["open", "--demo", "gpt_fp32"]);
    screen.shot("rest");
    let before = screen.ticks();
    std::thread::sleep(Duration::from_secs(4));
    let used = screen.ticks() - before;
    assert!(used <= 4, "{used} hundredths of a second in four seconds of rest");
}

#[test]
#[ignore = "needs Xvfb, xdotool and ImageMagick"]
fn for_measuring_the_window_closes_when_all_is_read_and_painted() {
    let mut screen = Screen::open(4, &[]);
    let mut measured = Command::new(env!("CARGO_BIN_EXE_vramscope"))
        .args(["open", "--demo", "varlen_default", "--quit-when-ready"])
        .env("DISPLAY", &screen.display)
        .env_remove("WAYLAND_DISPLAY")
        .env("XDG_RUNTIME_DIR", screen.folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    let status = loop {
        match measured.try_wait().unwrap() {
            Some(status) => break status,
            None if begin.elapsed() > Duration::from_secs(60) => {
                let _ = measured.kill();
                panic!("it stays open");
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    assert!(status.success());
    assert!(screen.program.0.try_wait().unwrap().is_none(), "others stay open");
}
