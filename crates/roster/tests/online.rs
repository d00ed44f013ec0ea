//! `roster import -H` and `roster export -H`: a directory that is being served, and a server that
//! is slow on purpose.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use common::{Run, command, roster};
use ldap::ber::{Frame, frame};
use ldap::message::{
    AttributesBuf, Controls, DecodeLimits, LdapResult, Message, MessageId, PartialAttribute,
    Request, Response, ResponseKind, ValuesBuf,
};
use ldap::result::ResultCode;
use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD, Place, Running, SUFFIX, pause};

/// A directory of its own, served.
struct Served {
    folder: tempfile::TempDir,
    place: Place,
    server: Running,
}

impl Served {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Place {
            roster: PathBuf::from(env!("CARGO_BIN_EXE_roster")),
            folder: folder.path().join("server"),
            environment: Vec::new(),
        };
        place.init().unwrap();
        let server = place.start().unwrap();
        Self { folder, place, server }
    }

    fn ask(&self, arguments: &[&str]) -> Run {
        let url = format!("ldap://{}", self.server.address);
        roster(&[arguments, &["-H", &url, "-D", ADMIN_DN, "-w", ADMIN_PASSWORD]].concat())
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// The import of a text, and what it says at its end.
    fn import(&self, text: &str, more: &[&str]) -> Run {
        let file = self.file("in.ldif", text);
        self.ask(&[&["import", &file], more].concat())
    }

    fn export(&self) -> String {
        let run = self.ask(&["export"]);
        assert_eq!(run.code, 0, "{run:?}");
        run.output
    }
}

fn branch(name: &str, above: &str) -> String {
    format!("dn: ou={name},{above}\nobjectClass: organizationalUnit\nou: {name}\n\n")
}

fn person(number: usize, above: &str) -> String {
    format!(
        "dn: uid=p{number},{above}\nobjectClass: inetOrgPerson\nuid: p{number}\n\
         cn: Person {number}\nsn: {number}\nuserPassword: secret{number}\n\n"
    )
}

#[track_caller]
fn check(run: &Run, code: i32, want: &[&str]) {
    assert_eq!(run.code, code, "{run:?}");
    for line in want {
        let all = format!("{}{}", run.output, run.errors);
        assert!(all.contains(line), "{all}\nlacks\n{line}");
    }
}

#[test]
fn an_import_into_a_serving_directory_is_what_an_export_of_it_is() {
    let served = Served::start();
    let people = format!("ou=people,{SUFFIX}");
    let deep = format!("ou=deep,ou=below,{SUFFIX}");
    // Subordinates first, two levels of them; the entry of the naming context, which is there.
    let mut ldif = format!(
        "version: 1\n\ndn: {SUFFIX}\nobjectClass: domain\ndc: example\ndescription: from file\n\n"
    );
    ldif += &person(0, &deep);
    ldif += &branch("deep", &format!("ou=below,{SUFFIX}"));
    ldif += &branch("below", SUFFIX);
    ldif += &branch("people", SUFFIX);
    (1..300).for_each(|number| ldif += &person(number, &people));
    write!(
        ldif,
        "dn: cn=stamped,{SUFFIX}\nobjectClass: device\ncn: stamped\n\
         createTimestamp: 20010203040506Z\nentryDN: cn=nonsense\n\
         entryUUID: 5c0e1d6b-3a51-4a3f-9f4e-0123456789ab\n\n"
    )
    .unwrap();
    // A search finds neither, if it does not ask for them by controls.
    write!(
        ldif,
        "dn: ou=elsewhere,{SUFFIX}\nobjectClass: referral\nobjectClass: extensibleObject\n\
         ou: elsewhere\nref: ldap://other.example.com/ou=elsewhere,{SUFFIX}\n\n\
         dn: cn=part,{people}\nobjectClass: subentry\ncn: part\nsubtreeSpecification: {{ }}\n\n"
    )
    .unwrap();
    let run = served.import(&ldif, &[]);
    check(&run, 0, &["rocessed 307 entries, imported 307, skipped 0, rejected 0"]);

    let online = served.export();
    assert_eq!(online.matches("dn: ").count(), 307);
    for line in [
        "ref: ldap://other.example.com/",
        "objectClass: subentry",
        "description: from file",
        "createTimestamp: 20010203040506Z",
        "entryUUID: 5c0e1d6b-3a51-4a3f-9f4e-0123456789ab",
        "userPassword: {SSHA512}",
    ] {
        assert!(online.contains(line), "{line}");
    }
    for computed in ["hasSubordinates", "numSubordinates", "entryDN", "etag", "isMember", "secret"]
    {
        assert!(!online.contains(computed), "{computed}");
    }
    let place = |name: &str| online.find(&format!("dn: {name}")).unwrap();
    assert!(place(&format!("ou=below,{SUFFIX}")) < place(&deep));
    assert!(place(&deep) < place(&format!("uid=p0,{deep}")));

    // The same entries as from the files, in the same text.
    let records = |text: &str| {
        let mut records: Vec<String> = text.split("\n\n").map(str::to_owned).collect();
        records.sort_unstable();
        records
    };
    let offline = served.place.offline(&["export"]).unwrap();
    assert_eq!(records(online.trim_end()), records(offline.trim_end()));

    // What is exported can be imported elsewhere, and is the same there.
    let other = Served::start();
    let run = other.import(&online, &[]);
    check(&run, 0, &["imported 307, skipped 0, rejected 0"]);
    // Attributes that the server makes itself may stand elsewhere in an entry.
    let lines = |text: &str| {
        let records = text.split("\n\n").map(|record| {
            let lines = record.lines().filter(|line| !line.starts_with("entryCSN"));
            let mut lines: Vec<&str> = lines.collect();
            lines.sort_unstable();
            lines.join("\n")
        });
        records.collect::<Vec<_>>().join("\n\n")
    };
    let (here, there) = (lines(online.trim_end()), lines(other.export().trim_end()));
    let different = records(&here).into_iter().zip(records(&there)).find(|(a, b)| a != b);
    assert_eq!(different, None);

    let run = served.ask(&["export", "-b", &people, "(uid=p7)"]);
    check(&run, 0, &[&format!("dn: uid=p7,{people}\n")]);
    assert_eq!(run.output.matches("dn: ").count(), 1);
}

#[test]
fn what_is_refused_ends_the_import_or_is_put_aside() {
    let served = Served::start();
    let people = format!("ou=people,{SUFFIX}");
    let nowhere = format!("ou=nowhere,{SUFFIX}");
    let ldif = branch("people", SUFFIX) + &person(1, &people);
    check(&served.import(&ldif, &[]), 0, &["imported 2, skipped 0, rejected 0"]);

    let again = person(2, &people) + &person(1, &people) + &person(3, &nowhere);
    let run = served.import(&again, &[]);
    let want = format!(
        "in.ldif:8: entry 'uid=p1,{people}': an entry with this name exists already already"
    );
    check(&run, 1, &[&want, "roster: hint: 1 entries of the file are in the directory now"]);

    // Sent in the order of the file: what stands before the refused one is there.
    let entry_line = format!("dn: uid=p2,{people}");
    assert!(served.export().contains(&entry_line));
}

/// They went nowhere: such a record was refused.
#[test]
fn controls_of_a_record_go_with_its_add() {
    const NO_OP: &str = "1.3.6.1.4.1.4203.666.5.2";
    const RELAX: &str = "1.3.6.1.4.1.4203.666.5.12";
    let served = Served::start();
    let with = |number: usize, controls: &str| {
        let lines = format!("{controls}\nchangetype: add\nobjectClass");
        person(number, SUFFIX).replacen("objectClass", &lines, 1)
    };
    let known = with(1, &format!("control: 1.2.3 false:: AP8=\ncontrol: {RELAX} true"));
    // Its superior comes later: the control waits with it.
    let below = format!("ou=late,{SUFFIX}");
    let waits = person(4, &below).replacen(
        "objectClass",
        "control: 1.2.3 true: a\nchangetype: add\nobjectClass",
        1,
    );
    let ldif = [
        known,
        with(2, "control: 1.2.3 true"),
        with(3, &format!("control: {NO_OP} true")),
        waits,
        branch("late", SUFFIX),
    ]
    .concat();
    let rejects = served.file("rejects.ldif", "");
    std::fs::remove_file(&rejects).unwrap();
    let run = served.import(&ldif, &["--reject-file", &rejects]);
    check(&run, 0, &["imported 2, skipped 0, rejected 3"]);
    let export = served.export();
    assert!(export.contains("dn: uid=p1,"), "{export}");
    for number in [2, 3, 4] {
        assert!(!export.contains(&format!("dn: uid=p{number},")), "{number}");
    }
    // What was put aside can be imported once the line is gone.
    let rejects = std::fs::read_to_string(rejects).unwrap();
    for line in ["control: 1.2.3 true\n", "control: 1.2.3 true: a\n", "changetype: add\n"] {
        assert!(rejects.contains(line), "{rejects}");
    }
    // An entry that is there would be changed, which is not what the control is for.
    let run = served.import(&with(1, &format!("control: {RELAX} true")), &["--replace-existing"]);
    check(&run, 1, &["the critical control applies only to an add"]);
}

/// An import over a connection cannot close the directory, so it says what stays open.
#[test]
fn acis_that_come_into_a_serving_directory_are_told() {
    let served = Served::start();
    let aci = "aci: (targetattr=\"cn\")(version 3.0; acl \"x\"; allow (read) \
               userdn=\"ldap:///self\";)";
    let with = |name: &str, more: &str| {
        format!("dn: ou={name},{SUFFIX}\nobjectClass: organizationalUnit\n{more}\n\n")
    };
    let told = "note: the data contain an ACI; the global ACIs of the directory, which grant more \
                than that, stay as they are: check ds-cfg-global-aci";
    check(&served.import(&with("one", aci), &[]), 0, &[told]);
    // Also when the import ends early, but not for what is not in.
    let two = with("two", aci) + &with("one", aci);
    check(&served.import(&two, &[]), 1, &[told]);
    let none = with("three", "description: no rules") + &with("one", aci);
    let run = served.import(&none, &[]);
    check(&run, 1, &["exists already"]);
    assert!(!run.errors.contains("global ACIs"), "{run:?}");
    let run = served.import(&with("four", &aci.replace("aci:", "aci;x-a:")), &[]);
    check(&run, 1, &["an ACI has no options"]);
}

#[test]
fn what_only_an_import_without_a_server_does_is_not_asked_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("in.ldif").display().to_string();
    std::fs::write(&file, person(1, SUFFIX)).unwrap();
    // Nobody listens there: it must not get so far.
    let online = ["import", "-H", "ldap://127.0.0.1:1", &file];
    for arguments in [
        &["--check"][..],
        &["--clear"],
        &["--include-filter", "(uid=p2)"],
        &["--exclude-filter", "(uid=p1)"],
        &["--memory", "256M"],
        &["--threads", "2"],
        &["--compress"],
        &["--password-scheme", "ssha"],
        &["--report"],
        &["--schema-file", "schema.ldif"],
        &["--no-translate"],
    ] {
        let run = roster(&[&online[..], arguments].concat());
        let want = format!("'{}", arguments[0]);
        check(&run, 2, &[&want, "cannot be used with", "--uri"]);
    }
    let run = roster(&[&online[..], &["--reject-file", &file]].concat());
    check(&run, 2, &["in.ldif is to be imported and would be overwritten"]);
}

/// How many entries an import said are there when it was stopped, and those that are.
#[track_caller]
fn check_stopped(served: &Served, errors: &str) {
    let words = " entries of the file are in the directory now";
    let line = errors.lines().find_map(|line| line.strip_suffix(words));
    let count = line.and_then(|line| line.rsplit(' ').next()).expect(errors);
    let count: usize = count.parse().unwrap();
    assert!(count < MANY, "{errors}");
    assert_eq!(served.export().matches("dn: uid=p").count(), count);
}

/// So many entries that an import is stopped before it has sent them all.
const MANY: usize = 60_000;

fn many() -> String {
    let person = |number| person(number, SUFFIX).replace("userPassword", "description");
    (0..MANY).map(person).collect()
}

#[test]
fn ctrl_c_tells_how_many_entries_are_in() {
    let served = Served::start();
    let file = served.file("in.ldif", &many());
    let url = format!("ldap://{}", served.server.address);
    let login = ["-H", &url, "-D", ADMIN_DN, "-w", ADMIN_PASSWORD];
    let mut child = command(&[&["import", "--json", &file], &login[..]].concat()).spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    errors.read_line(&mut text).unwrap();
    assert!(text.contains("\"phase\":\"load\""), "{text}");
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    errors.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    assert!(text.contains("roster: error: interrupted\n"), "{text}");
    check_stopped(&served, &text);
}

#[test]
fn a_reject_file_that_cannot_be_written_stops_the_import() {
    let served = Served::start();
    // More than is gathered before it is written.
    let wrong: String =
        (0..100).map(|number| person(number, SUFFIX).replace("sn:", "shoeSize:")).collect();
    let run = served.import(&(wrong + &many()), &["--reject-file", "/dev/full"]);
    check(&run, 2, &["cannot write /dev/full: no space left on device"]);
    check_stopped(&served, &run.errors);
}

#[test]
fn an_entry_too_large_for_one_request_comes_in_parts() {
    let served = Served::start();
    let mut group = format!("dn: cn=all,{SUFFIX}\nobjectClass: groupOfNames\n");
    // Nine megabytes: more than two parts.
    let filling = "x".repeat(200);
    for number in 0..40_000 {
        let _ = writeln!(group, "member: uid=user.{number},ou={filling},{SUFFIX}");
    }
    check(&served.import(&group, &[]), 0, &["imported 1, skipped 0, rejected 0"]);
    assert_eq!(served.export().matches("member: ").count(), 40_000);
}

/// What a server that answers searches late has seen.
#[derive(Default)]
struct Seen {
    searches: usize,
    adds: usize,
    /// Adds that came while another one had no answer, after the import was slowed down.
    crowded: usize,
}

/// Searches before and during the import, after which it must have been slowed down: those that
/// tell what one takes, and enough that are far too slow.
const SLOW_AFTER: usize = 60;
/// What a search takes: longer than the test allows by so much that the machine does not matter.
const SEARCH_TAKES: Duration = Duration::from_millis(10);

/// Serves one connection: searches late, adds at once but for the second, whose answer waits until
/// enough searches were late.
fn serve(mut socket: TcpStream, seen: &(Mutex<Seen>, Condvar)) {
    let (mut incoming, mut buffer) = (Vec::new(), [0; 8192]);
    loop {
        let read = socket.read(&mut buffer).unwrap_or(0);
        if read == 0 {
            return;
        }
        incoming.extend_from_slice(&buffer[..read]);
        let mut adds = 0;
        while let Ok(Frame::Complete(length)) = frame(&incoming, 1 << 20) {
            let octets: Vec<u8> = incoming.drain(..length).collect();
            let message = Message::<Request<'_>>::decode(&octets, &DecodeLimits::default());
            let Message { id, op, .. } = message.unwrap();
            let mut out = Vec::new();
            match op {
                Request::Search(search) => {
                    if !search.base.is_empty() {
                        pause(SEARCH_TAKES);
                        seen.0.lock().unwrap().searches += 1;
                        seen.1.notify_all();
                    }
                    found(id, search.base, &mut out);
                }
                Request::Add(_) => {
                    let mut all = seen.0.lock().unwrap();
                    all.adds += 1;
                    if all.adds == 2 {
                        all = seen.1.wait_while(all, |all| all.searches < SLOW_AFTER).unwrap();
                    }
                    // Those that were sent before it was slowed down are answered by then.
                    if all.adds > 8 {
                        adds += 1;
                        all.crowded += usize::from(adds > 1);
                    }
                    done(id, ResponseKind::Add, &mut out);
                }
                Request::Bind(_) => done(id, ResponseKind::Bind, &mut out),
                Request::Modify(_) => done(id, ResponseKind::Modify, &mut out),
                _ => return,
            }
            socket.write_all(&out).unwrap();
        }
    }
}

fn done(id: MessageId, kind: ResponseKind, out: &mut Vec<u8>) {
    let result = LdapResult::new(ResultCode::Success);
    ldap::encode::result(out, id, kind, &result, Controls::EMPTY);
}

fn found(id: MessageId, base: &str, out: &mut Vec<u8>) {
    let mut values = ValuesBuf::new();
    values.push(b"o=x");
    let mut attributes = AttributesBuf::new();
    attributes.push(PartialAttribute { description: "namingContexts", values: values.as_ref() });
    let op = Response::SearchEntry { dn: base, attributes: attributes.as_ref() };
    Message { id, op, controls: Controls::EMPTY }.encode(out);
    let op = Response::SearchDone(LdapResult::new(ResultCode::Success));
    Message { id, op, controls: Controls::EMPTY }.encode(out);
}

fn slow_server() -> (SocketAddr, Arc<(Mutex<Seen>, Condvar)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new((Mutex::new(Seen::default()), Condvar::new()));
    let shared = Arc::clone(&seen);
    thread::spawn(move || {
        for socket in listener.incoming() {
            let seen = Arc::clone(&shared);
            thread::spawn(move || serve(socket.unwrap(), &seen));
        }
    });
    (address, seen)
}

#[test]
fn an_import_slows_down_while_searches_are_slow() {
    let (address, seen) = slow_server();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("in.ldif");
    std::fs::write(&file, (0..16).map(|n| person(n, "o=x")).collect::<String>()).unwrap();
    let url = format!("ldap://{address}");
    let arguments = ["import", "-H", &url, "--max-latency", "1", file.to_str().unwrap()];
    let run = roster(&arguments);
    check(&run, 0, &["imported 16, skipped 0, rejected 0", "latency limit for searches"]);
    let lowered = run.errors.split("slowed down ").nth(1).unwrap();
    let lowered: u64 = lowered.split(' ').next().unwrap().parse().unwrap();
    assert!(lowered >= 3, "{}", run.errors);
    let seen = seen.0.lock().unwrap();
    assert_eq!((seen.adds, seen.crowded), (16, 0), "adds come one by one");
}
