use std::{env, process};

use proptest::prelude::*;

use super::*;

struct Number(u64);

impl Line for Number {
    fn write(&self, seq: u64, to: &mut Vec<u8>) {
        let _ = write!(to, "{{\"seq\":{seq},\"n\":{}}}", self.0);
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("hawser-log-{name}-{}", process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn settings(&self, file_bytes: u64, files: u32) -> Records {
        Records { folder: self.0.display().to_string(), file_bytes, files }
    }

    /// Writes numbers, and ends.
    fn log(&self, numbers: std::ops::Range<u64>) {
        let (log, thread) = Log::open(&self.settings(1 << 20, 4)).unwrap();
        numbers.for_each(|n| log.write(Number(n)));
        drop(log);
        thread.join().unwrap();
    }

    /// Values of a field in all lines of all files, in order.
    fn values(&self, field: &str) -> Vec<u64> {
        let files = numbers(&self.0).unwrap();
        let texts = files.iter().map(|number| fs::read_to_string(path(&self.0, *number)).unwrap());
        let lines: Vec<serde_json::Value> = texts
            .flat_map(|text| text.lines().map(String::from).collect::<Vec<_>>())
            .map(|line| serde_json::from_str(&line).unwrap())
            .collect();
        lines.iter().map(|line| line[field].as_u64().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn records_are_numbered_in_order() {
    let folder = Folder::new("order");
    folder.log(0..1000);
    assert_eq!(folder.values("n"), (0..1000).collect::<Vec<_>>());
    assert_eq!(folder.values("seq"), (1..=1000).collect::<Vec<_>>());
}

#[test]
fn the_oldest_files_are_removed() {
    let folder = Folder::new("rotation");
    let mut files = Files::open(&folder.settings(100, 3)).unwrap();
    for n in 0..10 {
        files
            .append(format!("{{\"n\":{n},\"text\":\"{}\"}}\n", "x".repeat(80)).as_bytes())
            .unwrap();
        files.append(b"{\"n\":0}\n").unwrap();
    }
    assert_eq!(numbers(&folder.0).unwrap(), [8, 9, 10]);
    assert_eq!(folder.values("n"), [7, 0, 8, 0, 9, 0]);
}

#[test]
fn a_torn_record_is_cut_off_after_a_crash() {
    let folder = Folder::new("torn");
    folder.log(0..10);
    for end in [&b"{\"seq\":11,\"n\":1"[..], b"\0\0\0\0\0\n\0\0", b"{\"seq\":11,\"n\"\n"] {
        let last = path(&folder.0, *numbers(&folder.0).unwrap().last().unwrap());
        let mut file = OpenOptions::new().append(true).open(&last).unwrap();
        file.write_all(end).unwrap();
        folder.log(20..21);
    }
    let mut expected: Vec<_> = (0..10).collect();
    expected.extend([20; 3]);
    assert_eq!(folder.values("n"), expected);
}

#[test]
fn what_is_lost_leaves_a_gap_in_the_numbers() {
    let folder = Folder::new("gap");
    let (log, thread) = Log::open(&folder.settings(1 << 20, 2)).unwrap();
    log.write(Number(0));
    while log.report().written == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    log.counters.dropped.fetch_add(5, Ordering::Relaxed);
    log.write(Number(1));
    drop(log);
    thread.join().unwrap();
    assert_eq!(folder.values("seq"), [1, 7]);
}

#[test]
fn nothing_stays_of_what_the_disk_refuses() {
    let folder = Folder::new("full");
    let mut files = Files::open(&folder.settings(1 << 20, 2)).unwrap();
    files.append(b"{\"n\":1}\n").unwrap();
    let read_only = File::open(path(&folder.0, 1)).unwrap();
    files.current = files.current.take().map(|(_, length)| (read_only, length));
    files.append(b"{\"n\":2}\n").unwrap_err();
    files.append(b"{\"n\":3}\n").unwrap();
    assert_eq!(folder.values("n"), [1, 3]);
}

proptest! {
    /// Of any bytes at most whole lines are kept, and all of them before the tear.
    #[test]
    fn whole_lines_end_with_a_record(lines in 0_usize..5, torn in prop::collection::vec(any::<u8>(), 0..40)) {
        let whole = "{\"n\":1}\n".repeat(lines);
        let mut bytes = whole.clone().into_bytes();
        bytes.extend(&torn);
        let kept = whole_lines(&bytes);
        prop_assert!(kept >= whole.len());
        prop_assert!(kept == 0 || bytes[kept - 1] == b'\n');
        let has_more = torn.contains(&0x7b); // a brace, without which nothing is a record
        prop_assert!(has_more || kept == whole.len());
    }
}
